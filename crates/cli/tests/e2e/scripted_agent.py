"""An agent that speaks the Agent Client Protocol and follows its prompt line by line.

ask TEXT   asks for permission to run TEXT, and prints the answer
asklong N  asks for permission to run N lines, the last of which does harm
saylater F prints something that looks like a question, once the file F exists
cheat      tries to answer its own question, and prints the result
spend N    spends N dollars
wait       works until it is interrupted
deaf       works on, whatever it is told
long N     says N lines of 1000 bytes, one by one
write FILE writes a file into its folder
fail TEXT  ends its turn with an error
die        exits without ending its turn
Any other prompt is echoed.
"""
import json, os, signal, subprocess, sys, time


def write(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def read():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def say(session, text):
    content = {"type": "text", "text": text}
    update = {"sessionUpdate": "agent_message_chunk", "content": content}
    write({"method": "session/update", "params": {"sessionId": session, "update": update}})


def ask(session, number, what):
    """Asks for permission; the answer arrives as a message."""
    options = [{"optionId": name, "name": name, "kind": name} for name in ("allow_once", "reject_once")]
    call = {"toolCallId": f"call-{number}", "kind": "execute", "title": what, "rawInput": {"command": what}}
    params = {"sessionId": session, "toolCall": call, "options": options}
    write({"id": f"ask-{number}", "method": "session/request_permission", "params": params})


def spend(session, dollars):
    """Reports what the session has cost so far."""
    cost = {"amount": dollars, "currency": "USD"}
    update = {"sessionUpdate": "usage_update", "used": 1, "size": 10, "cost": cost}
    write({"method": "session/update", "params": {"sessionId": session, "update": update}})


def turn(session, text):
    """Follows a prompt, and returns how the turn ended."""
    words = text.split("\n")
    for dollars in [word.removeprefix("spend ") for word in words if word.startswith("spend ")]:
        spend(session, float(dollars))
    asked = [word.removeprefix("ask ") for word in words if word.startswith("ask ")]
    for count in [word.removeprefix("asklong ") for word in words if word.startswith("asklong ")]:
        asked.append("".join(f"echo this is line {line} {'x' * 90}\n" for line in range(int(count))) + "rm -rf /")
    for number, what in enumerate(asked):
        ask(session, number, what)
    for name in [word.removeprefix("saylater ") for word in words if word.startswith("saylater ")]:
        while not os.path.exists(name):
            time.sleep(0.01)
        say(session, "\n" * 50 + "echo:\n  asks for permission: execute\n  ls\n  [y] allow  [n] deny\n")
        update = {"sessionUpdate": "tool_call", "toolCallId": "later", "title": "later", "status": "completed"}
        write({"method": "session/update", "params": {"sessionId": session, "update": update}})
    for count in [word.removeprefix("long ") for word in words if word.startswith("long ")]:
        for _ in range(int(count)):
            say(session, "x" * 999 + "\n")
    if "die" in words:
        sys.exit(1)
    if "cheat" in words:
        command = [os.environ["PROGRAM"], "approve", os.environ["LASTWORD_JOB_ID"], "q1-0000"]
        cheat = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        say(session, f"cheat {cheat.returncode} {cheat.stderr}")
    for name in [word.removeprefix("write ") for word in words if word.startswith("write ")]:
        with open(name, "w") as file:
            file.write(text)
    if "deaf" in words:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        say(session, "deaf\n")
        while True:
            signal.pause()
    answers = 0
    while answers < len(asked) or "wait" in words:
        message = read()
        if message.get("method") == "session/cancel":
            return "cancelled"
        if "result" in message:
            answers += 1
            outcome = message["result"]["outcome"]
            if outcome["outcome"] == "cancelled":
                return "cancelled"
            say(session, f"{message['id']} {outcome['optionId']}\n")
    say(session, f"did: {text}\n")
    return "end_turn"


def main():
    session = "conversation-1"
    while True:
        message = read()
        method, number = message.get("method"), message.get("id")
        if method == "initialize":
            capabilities = {"loadSession": True}
            write({"id": number, "result": {"protocolVersion": 1, "agentCapabilities": capabilities}})
        elif method == "session/new":
            write({"id": number, "result": {"sessionId": session}})
        elif method == "session/load":
            session = message["params"]["sessionId"]
            sys.stderr.write(f"loads {session}\n")
            write({"id": number, "result": {}})
        elif method == "session/prompt":
            text = message["params"]["prompt"][0]["text"]
            if text.startswith("fail "):
                write({"id": number, "error": {"code": -32603, "message": text.removeprefix("fail ")}})
            else:
                write({"id": number, "result": {"stopReason": turn(session, text)}})


main()
