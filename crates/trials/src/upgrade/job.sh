# Sourced by the script of every job. Each start writes its pid to $PLACE/runs/$JOB, so the judge can count starts by itself.
echo $$ >> "$PLACE/runs/$JOB"

# The environment, without the variables that differ from job to job.
env | grep -v -E '^(JOB|LASTWORD_JOB_ID|LASTWORD_ATTEMPT|LASTWORD_MARKER|PWD|OLDPWD|SHLVL|_)=' | sort > "$PLACE/env/$JOB"

# Writes numbered lines until the job may go on, then their number.
count() {
    n=0
    while [ ! -e "$PLACE/go/$JOB" ]; do
        n=$((n + 1))
        echo "line $n"
        sleep 0.3
    done
    echo "last $n"
}

# Tells the trial that its traps are set.
ready() {
    : > "$PLACE/ready/$JOB"
}

# Waits until the job may go on.
hold() {
    read -r _ < "$PLACE/gate/$JOB"
}

# Records the order in which jobs of a group start.
mark() {
    echo "$JOB" >> "$PLACE/order/$1"
}
