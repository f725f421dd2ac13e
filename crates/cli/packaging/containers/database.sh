# Runs PostgreSQL: a primary, or with a host as argument the replica of that one. $POSTGRES_PASSWORD is that of its superuser.
set -eu
PATH=$(echo /usr/lib/postgresql/*/bin):$PATH
if [ ! -s /data/PG_VERSION ] && [ $# -eq 0 ]; then
    echo "$POSTGRES_PASSWORD" >/tmp/password
    initdb --auth=scram-sha-256 --username=postgres --pwfile=/tmp/password /data
    rm /tmp/password
    printf 'host %s all all scram-sha-256\n' all replication >>/data/pg_hba.conf
    echo 'create database lastword' | postgres --single -D /data postgres
fi
while [ ! -s /data/PG_VERSION ]; do
    # It copies the primary, once that is there.
    PGPASSWORD=$POSTGRES_PASSWORD pg_basebackup --host="$1" --username=postgres --pgdata=/data --write-recovery-conf || sleep 1
done
exec postgres -D /data -c listen_addresses='*' -c unix_socket_directories=/tmp -c wal_keep_size=1GB
