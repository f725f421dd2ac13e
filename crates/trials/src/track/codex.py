"""A stand-in for `codex app-server`. Its prompt says how its turn goes.

idle      goes idle and never ends its turn
error     reports an error of its own and never ends its turn
closed    closes its thread in mid-turn
again     tells of its thread once more in mid-turn, then completes
obey      works until it is interrupted, and acknowledges that
Any other prompt is completed.
"""
import json, sys

THREAD = "acted"


def write(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def tell(method, **params):
    write({"method": method, "params": {"threadId": THREAD, **params}})


def end(number, status):
    tell("thread/status/changed", status={"type": "idle"})
    tell("turn/completed", turn={"id": f"turn-{number}", "status": status})


turns = 0
for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if number is None:
        continue
    if method in ("thread/start", "thread/resume"):
        write({"id": number, "result": {"thread": {"id": THREAD}, "model": "gpt-4o"}})
        continue
    write({"id": number, "result": {}})
    if method == "turn/start":
        turns += 1
        text = message["params"]["input"][0]["text"]
        tell("turn/started", turn={"id": f"turn-{turns}", "status": "inProgress"})
        if text == "idle":
            tell("thread/status/changed", status={"type": "idle"})
        elif text == "error":
            tell("thread/status/changed", status={"type": "systemError"})
        elif text == "closed":
            tell("thread/closed")
        elif text != "obey":
            if text == "again":
                write({"method": "thread/started", "params": {"thread": {"id": THREAD}}})
            end(turns, "completed")
    elif method == "turn/interrupt":
        end(turns, "interrupted")
