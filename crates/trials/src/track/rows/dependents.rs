//! Jobs that wait for another one.

use crate::track::home::Home;
use crate::track::row::{Seen, held_if, rows};

rows! {
    "A1" ours After010 Nothing [86]
        "A job that is submitted with `--after` while the other one ends stays queued until the daemon restarts."
        => "Every one of 160 such jobs runs.",
        submitted_while_the_other_ends;
    "A2" ours After010 Nothing [27, 86]
        "A job whose dependency is removed at that moment is cancelled as if the other one had failed, although it had completed."
        => "It runs, or the reason says that the other one was removed.",
        removed_at_that_moment;
}

fn submitted_while_the_other_ends(home: &Home) -> Seen {
    let script = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do \
                  A=$($LASTWORD run -d -- true); $LASTWORD run -d --after $A -- true; done";
    let mut jobs = Vec::new();
    for _ in 0..8 {
        jobs.extend(home.shell(script)?.out.lines().map(str::to_owned));
        let waited = home.run(&[&["wait", "-q", "--timeout", "15s"], &words(&jobs)[..]].concat())?;
        if waited.code == 124 {
            let queued = home.json(&["ls", "--phase", "queued"])?["items"].as_array().map_or(0, Vec::len);
            return held_if(false, format!("{queued} of {} jobs are queued after 15 s", jobs.len()));
        }
    }
    held_if(jobs.len() == 160, format!("{} jobs ended", jobs.len()))
}

fn removed_at_that_moment(home: &Home) -> Seen {
    home.ok(&["daemon", "start"])?;
    let script = "import sys, os, json, random, subprocess, threading, time\n\
                  L = os.environ['LASTWORD']\n\
                  def run(*words): return subprocess.run([L, *words], capture_output=True, text=True)\n\
                  wrong = runs = 0\n\
                  for i in range(60):\n\
                  \x20   a = run('run', '-d', '--', 'true').stdout.strip()\n\
                  \x20   def remove():\n\
                  \x20       for _ in range(100):\n\
                  \x20           if run('rm', a).returncode == 0: break\n\
                  \x20   remover = threading.Thread(target=remove); remover.start()\n\
                  \x20   time.sleep(random.uniform(0, 0.02))\n\
                  \x20   b = run('run', '-d', '--after', a, '--', 'true').stdout.strip()\n\
                  \x20   remover.join()\n\
                  \x20   if not b: continue\n\
                  \x20   run('wait', '-q', '--timeout', '10s', b)\n\
                  \x20   job = json.loads(run('show', b, '--json').stdout); runs += 1\n\
                  \x20   if job['outcome'] != 'completed' and job['cause'] != 'dependency_removed':\n\
                  \x20       wrong += 1; print(job['phase'], job['outcome'], job['cause']); break\n\
                  print(runs, 'accepted'); sys.exit(wrong)";
    let mut command = home.command("python3");
    let output = command.args(["-c", script]).output().map_err(|error| format!("python3: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout).replace('\n', " ");
    match output.status.code() {
        Some(code @ (0 | 1)) if said.contains("accepted") => held_if(code == 0, said),
        _ => Err(format!("{said} {}", String::from_utf8_lossy(&output.stderr))),
    }
}

fn words(jobs: &[String]) -> Vec<&str> {
    jobs.iter().map(String::as_str).collect()
}
