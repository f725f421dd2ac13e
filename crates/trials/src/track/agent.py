"""An agent that speaks the Agent Client Protocol. Its prompt says what it does.

linger   completes its turn, then ignores the end of its input and TERM
hang     works for ever and ignores TERM
silent   works for ever without a word
crash    is killed in mid-turn
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


lingers = False
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
        turn(text)
        write({"id": number, "result": {"stopReason": "end_turn"}})
if lingers:
    time.sleep(1000)
