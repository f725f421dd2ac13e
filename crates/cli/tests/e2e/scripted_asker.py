"""An agent that speaks the protocol of Codex's app server and asks what its prompt says, all of it at once.

permit TEXT  asks for permission to run TEXT
choose TEXT  lets one of two options be chosen
several TEXT lets several of two options be chosen
words TEXT   asks for words
both TEXT    asks two things in one question: a choice, then words
Any other line is ignored. The turn ends when everything is answered.
"""
import json, sys


def write(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def read():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def questions(kind, what):
    options = [{"label": "SQLite", "description": "one file"}, {"label": "PostgreSQL", "description": "a server"}]
    chosen = {"id": "a", "question": what, "options": options}
    several = {**chosen, "multiSelect": True}
    words = {"id": "b", "question": what}
    return {"choose": [chosen], "several": [several], "words": [words], "both": [chosen, words]}[kind]


def ask(number, line):
    """Asks what a line of the prompt says; returns whether it says anything."""
    kind, _, what = line.partition(" ")
    if kind == "permit":
        method, params = "item/commandExecution/requestApproval", {"itemId": f"i{number}", "command": what}
    elif kind in ("choose", "several", "words", "both"):
        method, params = "item/tool/requestUserInput", {"questions": questions(kind, what)}
    else:
        return False
    write({"id": f"ask-{number}", "method": method, "params": params})
    return True


def turn(number, text):
    write({"method": "turn/started", "params": {"turn": {"id": f"turn-{number}"}}})
    left = sum([ask(index, line) for index, line in enumerate(text.split("\n"))])
    while left > 0:
        left -= "result" in read()
    write({"method": "turn/completed", "params": {"turn": {"id": f"turn-{number}", "status": "completed"}}})


def main():
    turns = 0
    while True:
        message = read()
        method, number = message.get("method"), message.get("id")
        if method == "thread/start":
            write({"id": number, "result": {"thread": {"id": "thread-1"}}})
        elif method == "turn/start":
            turns += 1
            write({"id": number, "result": {}})
            turn(turns, message["params"]["input"][0]["text"])
        elif number is not None:
            write({"id": number, "result": {}})


main()
