"""An agent that speaks the Agent Client Protocol. Its prompt says what it does.

linger   completes its turn, then ignores the end of its input and TERM
hang     works for ever and ignores TERM
silent   works for ever without a word
crash    is killed in mid-turn
obey     works until it is told to stop, and acknowledges that
deaf     works until it is told to stop, and then claims to have completed
fail     fails
die      prints why and exits with 17 in mid-turn
Any other prompt is echoed.
"""
import json, os, signal, sys, time


def write(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def say(text):
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    write({"method": "session/update", "params": {"sessionId": "acted", "update": update}})


def turn(text):
    if text in ("linger", "hang"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say(f"did: {text}\n")
    if text in ("hang", "silent"):
        time.sleep(1000)
    if text == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    if text == "die":
        sys.stderr.write("fatal: upstream token expired (401)\n")
        sys.stderr.flush()
        sys.exit(17)


lingers, waits = False, None
for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "initialize":
        write({"id": number, "result": {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}})
    elif method == "session/new":
        write({"id": number, "result": {"sessionId": "acted"}})
    elif method == "session/load":
        write({"id": number, "result": {}})
    elif method == "session/prompt":
        text = message["params"]["prompt"][0]["text"]
        lingers = lingers or text == "linger"
        if text in ("obey", "deaf"):
            waits = (number, "cancelled" if text == "obey" else "end_turn")
        elif text == "fail":
            write({"id": number, "error": {"code": -32603, "message": "it failed"}})
        else:
            turn(text)
            write({"id": number, "result": {"stopReason": "end_turn"}})
    elif method == "session/cancel" and waits:
        (number, reason), waits = waits, None
        write({"id": number, "result": {"stopReason": reason}})
if lingers:
    time.sleep(1000)
