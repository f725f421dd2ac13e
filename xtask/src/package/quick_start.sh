# The quick start, as root of a fresh machine: installs the package, becomes an ordinary user, and uses it. $1 is a bug to seed.
set -eu
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
unset LASTWORD_HOME XDG_RUNTIME_DIR

step() { printf '  %s\n' "$*"; }
wrong() { printf '  WRONG: %s\n' "$*"; exit 1; }
# Runs a line as the user, in a login of its own.
ann() { su - ann -c "$1"; }
# Runs a line as the user, and checks its exit code.
exits() {
    want=$1
    code=0
    ann "$2" || code=$?
    [ "$code" = "$want" ] || wrong "\`$2\` exits with $code, not with $want"
}
# Waits until a line of the user's succeeds.
until_so() {
    n=0
    until ann "$1" >/dev/null 2>&1; do
        n=$((n + 1))
        [ "$n" -lt 200 ] || wrong "\`$1\` never came true"
        sleep 0.05
    done
}
gone() { [ ! -e "/proc/$1" ] || wrong "process $1 ($2) is still there"; }

dpkg --install /lastword.deb >/dev/null
useradd --create-home --shell /bin/bash ann
if [ "$1" = exit-lost ]; then
    mv /usr/bin/lastword /usr/bin/lastword.real
    printf '#!/bin/sh\nlastword.real "$@"\nexit 0\n' >/usr/bin/lastword
    chmod 755 /usr/bin/lastword
fi
step "installed: $(ann 'lastword --version'), as $(ann 'id -un')"

[ "$(ann 'lastword run -- echo hello')" = hello ] || wrong "no hello"
exits 7 'lastword run -- sh -c "exit 7"'
step 'run: its output and its exit code are those of the command'

ann 'lastword run -d --name counts -- sh -c "for i in 1 2 3; do echo \$i; sleep 0.1; done"' >/dev/null
[ "$(ann 'lastword logs -f counts' | tr '\n' ' ')" = '1 2 3 ' ] || wrong 'a line is missing'
step 'logs -f: every line until the end'

ann 'lastword run -d --name stubborn -- sh -c "trap \"\" TERM; setsid sleep 1000 & echo \$\$ \$!; sleep 1000"' >/dev/null
until_so 'lastword logs stubborn | grep -q " "'
read -r shell child <<END
$(ann 'lastword logs stubborn')
END
[ -e "/proc/$child" ] || wrong 'the child does not run'
ann 'lastword cancel --force stubborn' | sed 's/^/    /'
gone "$shell" shell
gone "$child" 'its child in a session of its own'
exits 3 'lastword wait stubborn'
step 'cancel: a tree that does not want to die is dead, and the receipt says so'

ann 'lastword run -d --name survivor -- sh -c "echo \$\$; while [ ! -e go ]; do sleep 0.05; done; echo end; exit 5"' >/dev/null
until_so 'lastword logs survivor | grep -q .'
leader=$(ann 'lastword logs survivor')
daemon=$(ann 'lastword daemon status --json' | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' | head -1)
kill -9 "$daemon"
[ -e "/proc/$leader" ] || wrong 'the job died with the daemon'
ann 'lastword show survivor' | grep -q running || wrong 'the next daemon does not know it'
step 'kill -9 of the daemon: the job goes on, and the next daemon has it'

dpkg --install /lastword.deb >/dev/null
ann 'lastword daemon restart' 2>/dev/null
[ -e "/proc/$leader" ] || wrong 'the job died with the upgrade'
step 'upgrade in place: the job goes on'
ann 'touch go'
exits 1 'lastword wait survivor'
[ "$(ann 'lastword logs survivor' | tail -1)" = end ] || wrong 'its last line is missing'
ann 'lastword show survivor --json' | grep -q '"code": *5' || wrong 'its exit status is not the true one'
step 'its last line and its exit status are there'

for page in lastword lastword-run lastword-cancel; do
    [ -s "/usr/share/man/man1/$page.1.gz" ] || wrong "no manual page $page"
done
bash -n /usr/share/bash-completion/completions/lastword || wrong 'the completion does not read'
for unit in lastword.service lastword.socket; do
    [ -s "/usr/lib/systemd/user/$unit" ] || wrong "no unit $unit"
done
step 'manual, completion and units are there'

ann 'lastword daemon stop' 2>/dev/null
dpkg --remove lastword >/dev/null
[ ! -e /usr/bin/lastword ] || wrong 'the program is still there'
step 'removed'
