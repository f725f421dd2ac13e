"""An agent that speaks the Agent Client Protocol, whose provider refuses to answer until the time in the file `reset`.

Each prompt is noted in the file `prompts`: when it came, from which job, and whether it was answered.
"""
import json, os, sys, time


def write(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def prompted(number, params):
    now, text = time.time(), params["prompt"][0]["text"]
    with open("reset") as file:
        left = float(file.read()) - now
    with open("prompts", "a") as file:
        file.write(json.dumps({"at": now, "job": os.environ["LASTWORD_JOB_ID"], "text": text, "answered": left <= 0}) + "\n")
    if left > 0:
        write({"id": number, "error": {"code": 429, "message": f"Used up. Suggested retry after {left:.3f}s."}})
        return
    content = {"type": "text", "text": f"did: {text}\n"}
    update = {"sessionUpdate": "agent_message_chunk", "content": content}
    write({"method": "session/update", "params": {"sessionId": params["sessionId"], "update": update}})
    write({"id": number, "result": {"stopReason": "end_turn"}})


for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "initialize":
        write({"id": number, "result": {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}})
    elif method == "session/new":
        write({"id": number, "result": {"sessionId": os.environ["LASTWORD_JOB_ID"]}})
    elif method == "session/load":
        write({"id": number, "result": {}})
    elif method == "session/prompt":
        prompted(number, message["params"])
