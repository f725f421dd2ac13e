"""Hooks of schemathesis for `cargo xtask api`.

Requests reach the socket of the daemon as its user. They name jobs that exist, run only commands of a list, and wait only for moments. Every
request is counted, by operation and status.
"""

import atexit
import collections
import json
import os
import re
import socket
import subprocess
import zlib

import schemathesis
import urllib3.connection

PROGRAM, HOME = os.environ["API_PROGRAM"], os.environ["API_HOME"]
# The user that owns the daemon, if it is not this one.
USER = int(os.environ["API_USER"]) if "API_USER" in os.environ else None

# What a submitted job may run.
COMMANDS = [["/bin/true"], ["/bin/sleep", "0.2"], ["/bin/sleep", "20"], ["/bin/cat"]]
# Requests that stop the daemon; each costs a restart.
STOPS_MAX = 2
# How long a request may ask to wait.
WAIT = "5ms"

# The references that half of the requests get: jobs that were there before, then the newest ones.
known = json.loads(os.environ["API_JOBS"])
recent = collections.deque(["@last"], maxlen=20)
counts = collections.Counter()
stops = 0


def connect(connection):
    """Connects to the daemon instead of to a host."""
    stream = socket.socket(socket.AF_UNIX)
    stream.settimeout(60)
    if USER is not None:
        os.seteuid(USER)
    try:
        stream.connect(f"{HOME}/lastword.sock")
    finally:
        if USER is not None:
            os.seteuid(0)
    return stream


urllib3.connection.HTTPConnection._new_conn = connect


def restart():
    """Waits until the daemon is gone, and starts the next one."""
    environment = {"LASTWORD_HOME": HOME, "HOME": HOME, "PATH": "/usr/local/bin:/usr/bin:/bin"}
    for verb in "stop", "start":
        subprocess.run(
            [PROGRAM, "daemon", verb], env=environment, cwd="/", user=USER, group=USER,
            check=True, capture_output=True,
        )


def number(value):
    """Makes a choice that a repeated request makes again."""
    return zlib.crc32(repr(value).encode())


def is_wrong(case, part):
    """Reports whether this part of a request breaks the document on purpose."""
    parts = case.meta.components if case.meta else {}
    return any(place.value == part and told.mode.is_negative for place, told in parts.items())


def bound_submit(body):
    argv, agent = body.get("argv", []), body.get("agent")
    if isinstance(argv, list) and all(isinstance(word, str) for word in argv):
        body["argv"] = COMMANDS[number(body) % len(COMMANDS)]
    if isinstance(body.get("cwd", ""), str):
        body["cwd"] = "/"
    if isinstance(agent, dict):
        # Either the scripted agent or one that does not exist, and mostly without a command beside it.
        if isinstance(agent.get("name"), str):
            agent["name"] = "scripted" if number(agent) % 2 else "missing"
        if number(body) % 4:
            body.pop("argv", None)


@schemathesis.hook
def before_call(context, case, kwargs):
    global stops
    path, body, query = case.operation.path, case.body, case.query
    if "{ref}" in path and not is_wrong(case, "path"):
        choice = number([case.path_parameters, query, body])
        # What ends or removes a job gets new ones, so that the others last.
        ends = case.method == "DELETE" or path.endswith((":cancel", ":abandon"))
        jobs = list(recent) if ends else known + list(recent)
        if choice % 4:
            case.path_parameters["ref"] = jobs[choice // 4 % len(jobs)]
    if case.headers and "Idempotency-Key" in case.headers and not is_wrong(case, "header") and number(body) % 4:
        # Mostly another one for each request.
        case.headers["Idempotency-Key"] = str(number(body))
    if query and re.fullmatch(r"[0-9]+[dhms]+", str(query.get("wait", ""))):
        query["wait"] = WAIT
    if not isinstance(body, dict):
        return
    if path == "/v1/jobs":
        bound_submit(body)
    # Mostly without effect, so that there are jobs.
    if path == "/v1/jobs:prune" and number(body) % 8 and isinstance(body.get("dry_run", False), bool):
        body["dry_run"] = True
    if path == "/v1/jobs:cancel" and number(body) % 8 and isinstance(body.get("group", ""), (str, type(None))):
        body["group"] = "empty"
    if isinstance(body.get("wait_ms"), int) and body["wait_ms"] > 5:
        body["wait_ms"] = 5
    if path == "/v1/daemon:stop" and case.method == "POST" and body.get("jobs", "keep") in ("keep", "cancel"):
        stops += 1
        body["jobs"] = "keep" if stops <= STOPS_MAX else "neither"


@schemathesis.hook
def after_call(context, case, response):
    operation = f"{case.operation.method.upper()} {case.operation.path}"
    counts[operation, response.status_code] += 1
    if response.status_code != 202:
        return
    if case.operation.path == "/v1/daemon:stop":
        restart()
    elif (job := response.json()) and "id" in job:
        recent.append(job["id"])


@schemathesis.check
def success_is_documented(context, response, case):
    """The default response of the document stands for failures only."""
    responses = case.operation.definition.raw["responses"]
    if response.status_code < 400 and str(response.status_code) not in responses:
        raise AssertionError(f"status {response.status_code} is not in the document")


@atexit.register
def report():
    rows = [[operation, status, count] for (operation, status), count in sorted(counts.items())]
    with open(os.environ["API_REPORT"], "w") as file:
        json.dump(rows, file)
