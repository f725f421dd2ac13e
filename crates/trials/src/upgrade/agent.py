"""A coding agent that does what its prompt says, in the dialect of its first argument: acp, claude or codex.

A prompt is a list of orders, separated by `; `:
  count      says numbered lines until it may go on
  ask WHAT   asks for permission to run WHAT, and says the answer
  withdraw   asks the same and withdraws the question
  spend N    reports N tokens of usage
  tasks N    reports N background tasks (claude)
  fill N     says N MiB of text
  fail WHY   ends the turn with an error
  WORD       says it back

It appends every message that it receives to $PLACE/heard/$JOB and its pid to $PLACE/runs/$JOB, for the judge.
"""
import json
import os
import select
import sys
import uuid

PLACE, JOB = os.environ["PLACE"], os.environ["JOB"]


def note(folder, text):
    with open(f"{PLACE}/{folder}/{JOB}", "a", encoding="utf-8") as file:
        file.write(text + "\n")


class Stop(Exception):
    """Ends the turn; its argument says how."""


class Agent:
    """What the dialects share."""

    def __init__(self):
        self.pending, self.asked = b"", 0
        self.session = f"conversation-{uuid.uuid4()}"

    def write(self, message):
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    def read(self, wait=None):
        """Returns the next message, or None if none comes in time."""
        while b"\n" not in self.pending:
            if not select.select([0], [], [], wait)[0]:
                return None
            piece = os.read(0, 1 << 16)
            if not piece:
                sys.exit(0)
            self.pending += piece
        line, self.pending = self.pending.split(b"\n", 1)
        return json.loads(line)

    def turn(self, prompt):
        """Carries out a prompt, and ends the turn."""
        note("heard", f"prompt {prompt}")
        try:
            for order in prompt.split("; "):
                self.obey(*order.partition(" ")[::2])
        except Stop as stop:
            return self.end(*stop.args)
        return self.end("completed")

    def obey(self, verb, rest):
        if verb == "count":
            number = 0
            while not os.path.exists(f"{PLACE}/go/{JOB}"):
                number += 1
                self.say(f"line {number}")
                self.heed(0.3)
            self.say(f"last {number}")
        elif verb in ("ask", "withdraw"):
            self.asked += 1
            name = f"ask-{self.asked}"
            self.ask(name, rest)
            if verb == "withdraw":
                return self.withdraw(name)
            while (answer := self.heed(None)) is None:
                pass
            note("heard", f"{name} {answer}")
            self.say(f"{name} {answer}")
        elif verb == "spend":
            self.spend(int(rest))
        elif verb == "tasks":
            self.tasks(int(rest))
        elif verb == "fill":
            for _ in range(int(rest) * 8):
                self.say("x" * (128 << 10))
        elif verb == "fail":
            raise Stop("failed", rest)
        else:
            self.say(f"{verb} {rest}".strip())

    def heed(self, wait):
        """Handles a message that comes within a turn. Returns the answer, if it answers a question."""
        message = self.read(wait)
        return None if message is None else self.take(message)

    def interrupted(self):
        note("heard", "interrupt")
        raise Stop("interrupted")

    def steered(self, text):
        note("heard", f"steer {text}")


class Acp(Agent):
    def reply(self, number, result):
        self.write({"jsonrpc": "2.0", "id": number, "result": result})

    def update(self, **update):
        params = {"sessionId": self.session, "update": update}
        self.write({"jsonrpc": "2.0", "method": "session/update", "params": params})

    def say(self, text):
        self.update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text + "\n"})

    def ask(self, name, what):
        options = [{"optionId": kind, "name": kind, "kind": kind} for kind in ("allow_once", "reject_once")]
        call = {"toolCallId": name, "kind": "execute", "title": what, "rawInput": {"command": what}}
        params = {"sessionId": self.session, "toolCall": call, "options": options}
        self.write({"jsonrpc": "2.0", "id": name, "method": "session/request_permission", "params": params})

    def withdraw(self, name):
        self.write({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": name}})

    def spend(self, tokens):
        self.usage = {"inputTokens": tokens, "outputTokens": 0, "totalTokens": tokens}

    def end(self, how, why=None):
        if how == "failed":
            error = {"code": -32603, "message": why}
            return self.write({"jsonrpc": "2.0", "id": self.prompt, "error": error})
        reason = {"completed": "end_turn", "interrupted": "cancelled"}[how]
        return self.reply(self.prompt, {"stopReason": reason, **({"usage": self.usage} if self.usage else {})})

    def take(self, message):
        method, number = message.get("method"), message.get("id")
        if method == "initialize":
            self.reply(number, {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}})
        elif method == "session/new":
            self.reply(number, {"sessionId": self.session})
        elif method == "session/load":
            self.session = message["params"]["sessionId"]
            self.reply(number, {})
        elif method == "session/prompt":
            self.prompt, self.usage = number, None
            self.turn(message["params"]["prompt"][0]["text"])
        elif method == "session/cancel":
            self.interrupted()
        elif "result" in message:
            outcome = message["result"]["outcome"]
            if outcome["outcome"] == "cancelled":
                self.interrupted()
            return "allow" if outcome["optionId"] == "allow_once" else "deny"
        return None


class Claude(Agent):
    def __init__(self):
        super().__init__()
        if "--resume" in sys.argv:
            self.session = sys.argv[sys.argv.index("--resume") + 1]
        self.tokens = 0

    def say(self, text):
        self.write({"type": "assistant", "message": {"model": "m", "content": [{"type": "text", "text": text}]}})

    def ask(self, name, what):
        request = {"subtype": "can_use_tool", "tool_name": "execute", "input": {"command": what}}
        self.write({"type": "control_request", "request_id": name, "request": request})

    def withdraw(self, name):
        self.write({"type": "control_cancel_request", "request_id": name})

    def spend(self, tokens):
        self.tokens += tokens
        usage = {"input_tokens": tokens, "output_tokens": 0}
        self.write({"type": "stream_event", "event": {"type": "message_delta", "usage": usage}})

    def tasks(self, count):
        self.write({"type": "system", "subtype": "background_tasks_changed", "tasks": [{}] * count})

    def end(self, how, why=None):
        result = {"type": "result", "session_id": self.session, "usage": {"input_tokens": self.tokens}}
        if how == "failed":
            return self.write({**result, "subtype": "error_during_execution", "is_error": True, "result": why})
        reason = {"completed": "completed", "interrupted": "aborted_streaming"}[how]
        return self.write({**result, "subtype": "success", "is_error": False, "terminal_reason": reason})

    def take(self, message):
        kind = message.get("type")
        if kind == "user":
            text = message["message"]["content"][0]["text"]
            if self.busy:
                self.steered(text)
                return self.write({**message, "isReplay": True})
            self.busy, self.tokens = True, 0
            self.write({"type": "system", "subtype": "init", "session_id": self.session})
            self.write({**message, "isReplay": True})
            self.turn(text)
            self.busy = False
        elif kind == "control_request":
            self.interrupted()
        elif kind == "control_response":
            return message["response"]["response"]["behavior"]
        return None

    busy = False


class Codex(Agent):
    def notice(self, method, **params):
        self.write({"method": method, "params": {"threadId": self.session, **params}})

    def say(self, text):
        self.notice("item/completed", item={"type": "agentMessage", "text": text})

    def ask(self, name, what):
        params = {"threadId": self.session, "command": what}
        self.write({"id": name, "method": "item/commandExecution/requestApproval", "params": params})

    def withdraw(self, name):
        self.notice("serverRequest/resolved", requestId=name)

    def spend(self, tokens):
        self.tokens += tokens
        total, last = ({"inputTokens": count} for count in (self.tokens, tokens))
        self.notice("thread/tokenUsage/updated", turnId=self.name, tokenUsage={"total": total, "last": last})

    def end(self, how, why=None):
        turn = {"id": self.name, "status": how, **({"error": {"message": why}} if why else {})}
        self.notice("turn/completed", turn=turn)

    def take(self, message):
        method, number = message.get("method"), message.get("id")
        params = message.get("params", {})
        if method == "thread/resume":
            self.session = params["threadId"]
        if method == "turn/steer":
            self.steered(params["input"][0]["text"])
        if method in ("thread/start", "thread/resume"):
            self.write({"id": number, "result": {"thread": {"id": self.session}}})
        elif method and number is not None:
            self.write({"id": number, "result": {}})
        if method == "turn/start":
            self.name = f"turn-{uuid.uuid4()}"
            self.notice("turn/started", turn={"id": self.name})
            self.turn(params["input"][0]["text"])
        elif method == "turn/interrupt":
            self.interrupted()
        elif "result" in message:
            decision = message["result"]["decision"]
            if decision == "cancel":
                self.interrupted()
            return "allow" if decision == "accept" else "deny"
        return None

    tokens = 0


note("runs", str(os.getpid()))
agent = {"acp": Acp, "claude": Claude, "codex": Codex}[sys.argv[1]]()
while True:
    agent.heed(None)
