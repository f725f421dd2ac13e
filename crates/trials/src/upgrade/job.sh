# What the scripts of jobs share. Each start leaves its pid in $PLACE/runs/$JOB, so that starts are counted without asking the product.
echo $$ >> "$PLACE/runs/$JOB"

# What it finds in its environment, without what is its own.
env | grep -v -E '^(JOB|LASTWORD_JOB_ID|LASTWORD_ATTEMPT|LASTWORD_MARKER|PWD|OLDPWD|SHLVL|_)=' | sort > "$PLACE/env/$JOB"

# Writes numbered lines until the job is let go, then how many there were.
count() {
    n=0
    while [ ! -e "$PLACE/go/$JOB" ]; do
        n=$((n + 1))
        echo "line $n"
        sleep 0.3
    done
    echo "last $n"
}

# Waits until the job is let go.
hold() {
    read -r _ < "$PLACE/gate/$JOB"
}

# Leaves a line for the judge, in the order in which jobs come here.
mark() {
    echo "$JOB" >> "$PLACE/order/$1"
}
