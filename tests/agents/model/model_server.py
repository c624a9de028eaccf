#!/usr/bin/env python3
"""A scripted model server for testing coding-agent programs without a model.

It speaks the four wire formats that coding agents use today and answers every
request from a scenario file instead of from a model:

    POST  /v1/chat/completions                      OpenAI chat completions
    POST  /v1/responses                             OpenAI responses
    POST  /v1/messages  (+ /count_tokens)           Anthropic messages
    POST  /v1beta/models/M:generateContent          Gemini
          (+ :streamGenerateContent, :countTokens)
    GET   /v1/models                                all of them ask now and then

each with and without server-sent events.  Python 3.9+, standard library only.

    python3 model_server.py --port 8099 --scenario scenarios/hello-then-curl.json

Only loopback addresses and those for documentation are accepted for --host.

What makes it work with programs nobody here wrote
--------------------------------------------------
*   The scenario says what should happen ("write this file", "run this
    command"), not which tool to call.  The server looks at the tools that the
    request offers and fills in the right name and arguments (see ToolBox).
*   The server is stateless about the conversation: the place in the script is
    read off the history inside each request (tool-call ids carry the turn
    number), so retries, parallel runs, restarts and resumed sessions are safe.
*   Requests that are not part of the job (titles, summaries, quota probes) are
    recognised by offering no tools, or fewer than --min-tools, and get a short
    harmless text.

Base URLs.  Give the agent  http://127.0.0.1:PORT  for the default scenario, or
http://127.0.0.1:PORT/s/SCENARIO/r/RUN  to choose the scenario by file name
(without .json) and to tag the requests with a run id.  Either form is followed
by the usual /v1/... path.

Control paths (plain JSON):
    GET   /_control/health
    GET   /_control/requests?run=RUN     the request log so far
    POST  /_control/runs/RUN             {"cwd": "/abs/worktree", "min_tools": 8}
                                         both optional; cwd makes written paths
                                         absolute, for agents that insist on it
    POST  /_control/reset                forget log, runs and fault counters
"""
import argparse
import ipaddress
import json
import os
import re
import socket
import struct
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# --------------------------------------------------------------------------
# Scenario
# --------------------------------------------------------------------------

TURN_KEYS = {"say", "think", "do", "usage", "fault", "expect", "repeat_until",
             "delay_ms", "chunk_chars", "chunk_delay_ms", "note"}
ACTION_KEYS = {"run", "write", "edit", "tool"}
FAULT_KINDS = {"status", "hold", "reset", "stall", "truncate", "garbage"}


class ScenarioError(ValueError):
    pass


class Scenario:
    def __init__(self, name, doc):
        self.name = name
        self.description = doc.get("description", "")
        self.side_reply = doc.get("side_reply", "Scripted side reply")
        self.turns = doc.get("turns")
        if not isinstance(self.turns, list) or not self.turns:
            raise ScenarioError("%s: 'turns' must be a non-empty list" % name)
        for number, turn in enumerate(self.turns):
            where = "%s: turn %d" % (name, number)
            unknown = set(turn) - TURN_KEYS
            if unknown:
                raise ScenarioError("%s: unknown keys %s" % (where, sorted(unknown)))
            for action in turn.get("do", []):
                if len(action) != 1 or set(action) - ACTION_KEYS:
                    raise ScenarioError("%s: an action is one of %s" % (where, sorted(ACTION_KEYS)))
            fault = turn.get("fault")
            if fault and fault.get("kind") not in FAULT_KINDS:
                raise ScenarioError("%s: fault kind is one of %s" % (where, sorted(FAULT_KINDS)))
            for key in ("expect", "repeat_until"):
                if key in turn:
                    pattern = turn[key]["match"] if key == "repeat_until" else turn[key]
                    re.compile(pattern)

    @classmethod
    def load(cls, path):
        with open(path, encoding="utf-8") as handle:
            doc = json.load(handle)
        return cls(os.path.splitext(os.path.basename(path))[0], doc)


# --------------------------------------------------------------------------
# The conversation, in one form for all protocols
# --------------------------------------------------------------------------

class Item:
    """One piece of history: kind is system, user, assistant, call or result."""
    __slots__ = ("kind", "text", "call_id", "name")

    def __init__(self, kind, text="", call_id="", name=""):
        self.kind, self.text, self.call_id, self.name = kind, text, call_id, name


class Ask:
    """A parsed request."""

    def __init__(self, model, stream, items, tools, size):
        self.model = model
        self.stream = stream
        self.items = items
        self.tools = tools          # name -> JSON schema of the arguments, or None for free text
        self.size = size

    def text_of(self, *kinds):
        return "\n".join(i.text for i in self.items if i.kind in kinds)

    def last_results(self):
        """Texts of the tool results that came after the last assistant item."""
        out = []
        for item in reversed(self.items):
            if item.kind in ("call", "assistant"):
                break
            if item.kind == "result":
                out.append(item.text)
        return "\n".join(reversed(out))


class Call:
    def __init__(self, call_id, name, args, free_text=None):
        self.call_id, self.name, self.args, self.free_text = call_id, name, args, free_text


class Reply:
    def __init__(self, text="", think="", calls=(), usage=None):
        self.text, self.think, self.calls = text, think, list(calls)
        self.usage = usage or {"input": 0, "output": 0, "cached": 0}
        self.turn = None


CALL_ID = re.compile(r"t(\d+)a(\d+)n(\d+)$")


def wants_prose(ask):
    """True for an agent that reads edits from the text of the answer (aider)."""
    return not ask.tools and "SEARCH/REPLACE" in ask.text_of("system", "user")


def place_in_script(ask, scenario):
    """Return (turn, attempt) that this request is asking for."""
    if wants_prose(ask):
        # Such agents put made-up examples into the history: count only what this script said.
        said = {i.text.strip() for i in ask.items if i.kind == "assistant"}
        for number, turn in enumerate(scenario.turns):
            if prose_for(turn).strip() not in said:
                return number, 0
        return len(scenario.turns), 0
    last, last_index = None, -1
    for index, item in enumerate(ask.items):
        if item.kind == "call":
            found = CALL_ID.search(item.call_id or "")
            if found:
                last, last_index = (int(found.group(1)), int(found.group(2))), index
    if last is None:
        # No id of ours came back: count the groups of assistant items instead.
        groups, inside = 0, False
        for item in ask.items:
            if item.kind in ("assistant", "call"):
                groups, inside = groups + (not inside), True
            else:
                inside = False
        return groups, 0
    turn, attempt = last
    texts_after = sum(1 for i in ask.items[last_index + 1:] if i.kind == "assistant" and i.text.strip())
    if texts_after == 0 and turn < len(scenario.turns):
        again = scenario.turns[turn].get("repeat_until")
        if again and attempt + 1 < int(again.get("max", 5)):
            if not re.search(again["match"], ask.last_results(), re.S):
                return turn, attempt + 1
    return turn + 1 + texts_after, 0


# --------------------------------------------------------------------------
# From "run this" / "write that" to the tools that the agent offers
# --------------------------------------------------------------------------

class ToolBox:
    RUN = ("exec_command", "shell_command", "shell", "bash", "run_shell_command", "execute_command",
           "run_commands", "run_command", "execute_bash", "terminal", "developer__shell")
    WRITE = ("write", "write_file", "write_to_file", "create_file", "save_file")
    EDIT = ("edit", "replace", "edit_file", "search_replace", "str_replace")
    DONE = ("attempt_completion", "submit_and_exit", "task_complete", "finish")
    SUBMIT_MARK = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"    # mini-swe-agent ends a job with this line

    COMMAND_ARGS = ("command", "cmd", "commands", "script")
    PATH_ARGS = ("file_path", "filePath", "path", "absolute_path", "filename", "target_file")
    CONTENT_ARGS = ("content", "contents", "file_text", "text")
    OLD_ARGS = ("old_string", "oldString", "old_str", "old_text", "oldText")
    NEW_ARGS = ("new_string", "newString", "new_str", "new_text", "newText")

    def __init__(self, tools, cwd):
        self.tools = tools
        self.by_lower = {name.lower(): name for name in tools}
        self.cwd = cwd

    def find(self, names):
        for name in names:
            if name in self.by_lower:
                return self.by_lower[name]
        return None

    def absolute(self, path):
        return path if os.path.isabs(path) or not self.cwd else os.path.join(self.cwd, path)

    def fill(self, name, wanted):
        """wanted: list of (candidate argument names, value)."""
        schema = self.tools.get(name) or {}
        properties = schema.get("properties") or {}
        args = {}
        for candidates, value in wanted:
            key = next((c for c in candidates if c in properties), candidates[0])
            spec = properties.get(key) or {}
            if spec.get("type") == "array" and not isinstance(value, list):
                item_type = (spec.get("items") or {}).get("type")
                if name.lower() in ("shell", "local_shell"):
                    value = ["bash", "-lc", value]
                elif item_type == "object":
                    item_props = (spec["items"].get("properties") or {})
                    inner = next((c for c in self.COMMAND_ARGS if c in item_props), "command")
                    value = [{inner: value}]
                else:
                    value = [value]
            args[key] = value
        for key in schema.get("required") or []:
            if key not in args:
                args[key] = self.default_for(properties.get(key) or {})
        return args

    @staticmethod
    def default_for(spec):
        if "default" in spec:
            return spec["default"]
        if spec.get("enum"):
            return spec["enum"][0]
        kind = spec.get("type")
        if isinstance(kind, list):
            kind = kind[0]
        return {"boolean": False, "integer": 1, "number": 1, "array": [], "object": {}}.get(kind, "scripted step")

    def run(self, value):
        command = value if isinstance(value, str) else value["command"]
        extra = {} if isinstance(value, str) else value.get("args", {})
        name = self.find(self.RUN)
        if not name:
            return None
        args = self.fill(name, [(self.COMMAND_ARGS, command)])
        args.update(extra)
        return name, args, None

    def write(self, value):
        name = self.find(self.WRITE)
        if name:
            return name, self.fill(name, [(self.PATH_ARGS, self.absolute(value["path"])),
                                          (self.CONTENT_ARGS, value["content"])]), None
        if "apply_patch" in self.tools and self.tools["apply_patch"] is None:
            lines = "".join("+%s\n" % line for line in value["content"].splitlines())
            patch = "*** Begin Patch\n*** Add File: %s\n%s*** End Patch" % (value["path"], lines)
            return "apply_patch", None, patch
        mark = "SCRIPTED_EOF"
        return self.run("cat > '%s' <<'%s'\n%s%s" % (
            value["path"], mark, value["content"] if value["content"].endswith("\n") else value["content"] + "\n", mark))

    def edit(self, value):
        name = self.find(self.EDIT)
        if name:
            properties = (self.tools.get(name) or {}).get("properties") or {}
            if "edits" in properties:
                return name, self.fill(name, [(self.PATH_ARGS, self.absolute(value["path"])),
                                              (("edits",), [{"oldText": value["old"], "newText": value["new"]}])]), None
            return name, self.fill(name, [(self.PATH_ARGS, self.absolute(value["path"])),
                                          (self.OLD_ARGS, value["old"]), (self.NEW_ARGS, value["new"])]), None
        if "apply_patch" in self.tools and self.tools["apply_patch"] is None:
            body = "".join("-%s\n" % l for l in value["old"].splitlines())
            body += "".join("+%s\n" % l for l in value["new"].splitlines())
            return "apply_patch", None, "*** Begin Patch\n*** Update File: %s\n@@\n%s*** End Patch" % (value["path"], body)
        script = "import sys;p,o,n=sys.argv[1:];s=open(p).read();assert o in s;open(p,'w').write(s.replace(o,n,1))"
        quote = lambda s: "'" + s.replace("'", "'\\''") + "'"
        return self.run("python3 -c %s %s %s %s" % tuple(map(quote, (script, value["path"], value["old"], value["new"]))))

    def action(self, action):
        (kind, value), = action.items()
        if kind == "tool":
            return value["name"], value.get("args", {}), value.get("free_text")
        return getattr(self, kind)(value)


def prose_for(turn):
    """A turn for agents that read edits from the text of the answer (aider)."""
    parts = [turn.get("say", "")]
    for action in turn.get("do", []):
        (kind, value), = action.items()
        if kind == "write":
            parts.append("%s\n```\n<<<<<<< SEARCH\n=======\n%s>>>>>>> REPLACE\n```" % (value["path"], value["content"]))
        elif kind == "edit":
            parts.append("%s\n```\n<<<<<<< SEARCH\n%s\n=======\n%s\n>>>>>>> REPLACE\n```" % (
                value["path"], value["old"].rstrip("\n"), value["new"].rstrip("\n")))
        elif kind == "run":
            parts.append("```bash\n%s\n```" % (value if isinstance(value, str) else value["command"]))
    return "\n\n".join(p for p in parts if p)


CWD_HINTS = (re.compile(r"<cwd>([^<\n]+)</cwd>"),
             re.compile(r"working (?:in the )?director(?:y|ies)(?: is)?:?[ `'\"(]{0,3}(/[^\s`'\"<)]+)", re.I),
             re.compile(r"\bcwd:? *[`'\"]?(/[^\s`'\"<]+)", re.I))


def guess_cwd(ask):
    text = ask.text_of("system", "user")
    for hint in CWD_HINTS:
        found = hint.search(text)
        if found:
            return found.group(1).rstrip(".,;")
    return None


def is_side_request(ask, min_tools):
    return len(ask.tools) < max(1, min_tools) and not wants_prose(ask)


def compose(ask, scenario, turn_number, attempt, cwd):
    """The reply of one turn, in terms of the tools on offer."""
    prose = wants_prose(ask)
    if turn_number >= len(scenario.turns):
        turn = {"say": "The scenario is over."}
    else:
        turn = scenario.turns[turn_number]
    if prose:
        return Reply(text=prose_for(turn), usage=turn.get("usage"))
    box = ToolBox(ask.tools, cwd or guess_cwd(ask))
    reply = Reply(text=turn.get("say", ""), think=turn.get("think", ""), usage=turn.get("usage"))
    planned = [box.action(a) for a in turn.get("do", [])]
    if not turn.get("do"):
        done = box.find(ToolBox.DONE)
        if done:
            planned = [(done, box.fill(done, [(("result", "message", "summary"), reply.text)]), None)]
        elif ToolBox.SUBMIT_MARK in ask.text_of("system", "user"):
            planned = [box.run("echo %s && echo '%s'" % (ToolBox.SUBMIT_MARK, reply.text.replace("'", "")))]
    for number, plan in enumerate(planned):
        if plan is None:
            reply.text += "\n[model server: none of the offered tools can do this: %s]" % sorted(ask.tools)
            continue
        name, args, free_text = plan
        reply.calls.append(Call("call_t%da%dn%d" % (turn_number, attempt, number), name, args, free_text))
    return reply


# --------------------------------------------------------------------------
# Protocols.  parse(body) -> Ask;  whole(reply) -> dict;  events(reply) -> SSE
# --------------------------------------------------------------------------

def flat(content):
    """Text of a content field that is a string or a list of parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        content = [content]
    out = []
    for part in content:
        if isinstance(part, str):
            out.append(part)
        elif isinstance(part, dict):
            for key in ("text", "content", "output"):
                if isinstance(part.get(key), str):
                    out.append(part[key])
                    break
                if isinstance(part.get(key), list):
                    out.append(flat(part[key]))
                    break
    return "\n".join(out)


def pieces(text, size):
    size = max(1, size)
    return [text[i:i + size] for i in range(0, len(text), size)]


class Protocol:
    chunk_chars = 24

    def __init__(self, body, path):
        self.body, self.path = body, path
        self.stamp = int(time.time())

    @staticmethod
    def sse(data, event=None):
        head = "event: %s\n" % event if event else ""
        return (head + "data: " + (data if isinstance(data, str) else json.dumps(data)) + "\n\n").encode()


class OpenAIChat(Protocol):
    def parse(self):
        body, items = self.body, []
        for message in body.get("messages", []):
            role, text = message.get("role"), flat(message.get("content"))
            if role in ("system", "developer"):
                items.append(Item("system", text))
            elif role == "tool":
                items.append(Item("result", text, message.get("tool_call_id", "")))
            elif role == "assistant":
                if text.strip():
                    items.append(Item("assistant", text))
                for call in message.get("tool_calls") or []:
                    function = call.get("function", {})
                    items.append(Item("call", function.get("arguments", ""), call.get("id", ""), function.get("name", "")))
            else:
                items.append(Item("user", text))
        tools = {t["function"]["name"]: t["function"].get("parameters") or {}
                 for t in body.get("tools") or [] if t.get("type") == "function"}
        return Ask(body.get("model", "?"), bool(body.get("stream")), items, tools, len(json.dumps(body)))

    def usage(self, reply):
        u = reply.usage
        return {"prompt_tokens": u["input"], "completion_tokens": u["output"],
                "total_tokens": u["input"] + u["output"],
                "prompt_tokens_details": {"cached_tokens": u.get("cached", 0)}}

    def calls(self, reply):
        return [{"index": n, "id": c.call_id, "type": "function",
                 "function": {"name": c.name, "arguments": json.dumps(c.args)}} for n, c in enumerate(reply.calls)]

    def whole(self, reply):
        message = {"role": "assistant", "content": reply.text or None}
        if reply.think:
            message["reasoning_content"] = reply.think
        if reply.calls:
            message["tool_calls"] = [{k: v for k, v in c.items() if k != "index"} for c in self.calls(reply)]
        return {"id": "chatcmpl-scripted", "object": "chat.completion", "created": self.stamp,
                "model": self.body.get("model"), "usage": self.usage(reply),
                "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if reply.calls else "stop"}]}

    def events(self, reply):
        def chunk(delta, finish=None, **more):
            doc = {"id": "chatcmpl-scripted", "object": "chat.completion.chunk", "created": self.stamp,
                   "model": self.body.get("model"), "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
            doc.update(more)
            return self.sse(doc)
        yield chunk({"role": "assistant", "content": ""})
        for piece in pieces(reply.think, self.chunk_chars):
            yield chunk({"reasoning_content": piece})
        for piece in pieces(reply.text, self.chunk_chars):
            yield chunk({"content": piece})
        for call in self.calls(reply):
            arguments = call["function"]["arguments"]
            call["function"]["arguments"] = ""
            yield chunk({"tool_calls": [call]})
            for piece in pieces(arguments, self.chunk_chars):
                yield chunk({"tool_calls": [{"index": call["index"], "function": {"arguments": piece}}]})
        yield chunk({}, "tool_calls" if reply.calls else "stop", usage=self.usage(reply))
        yield self.sse("[DONE]")

    def error(self, status, text):
        return {"error": {"message": text, "type": "scripted_error", "code": status}}


class OpenAIResponses(Protocol):
    def parse(self):
        body, items = self.body, []
        if body.get("instructions"):
            items.append(Item("system", body["instructions"]))
        source = body.get("input") or []
        if isinstance(source, str):
            source = [{"type": "message", "role": "user", "content": source}]
        for entry in source:
            kind = entry.get("type", "message")
            if kind == "message":
                role = entry.get("role", "user")
                items.append(Item({"assistant": "assistant", "user": "user"}.get(role, "system"), flat(entry.get("content"))))
            elif kind in ("function_call", "custom_tool_call", "local_shell_call"):
                items.append(Item("call", str(entry.get("arguments") or entry.get("input") or ""),
                                  entry.get("call_id", ""), entry.get("name", kind)))
            elif kind.endswith("_output"):
                items.append(Item("result", flat(entry.get("output")), entry.get("call_id", "")))
        tools = {}
        for tool in body.get("tools") or []:
            if tool.get("type") == "function":
                tools[tool["name"]] = tool.get("parameters") or {}
            elif tool.get("type") == "custom":
                tools[tool["name"]] = None
        return Ask(body.get("model", "?"), bool(body.get("stream")), items, tools, len(json.dumps(body)))

    def usage(self, reply):
        u = reply.usage
        return {"input_tokens": u["input"], "input_tokens_details": {"cached_tokens": u.get("cached", 0)},
                "output_tokens": u["output"], "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": u["input"] + u["output"]}

    def output(self, reply):
        out = []
        tag = "%s" % (reply.turn if reply.turn is not None else "x")
        if reply.think:
            out.append({"type": "reasoning", "id": "rs_%s" % tag, "summary": [{"type": "summary_text", "text": reply.think}]})
        if reply.text:
            out.append({"type": "message", "id": "msg_%s" % tag, "role": "assistant", "status": "completed",
                        "content": [{"type": "output_text", "text": reply.text, "annotations": []}]})
        for n, call in enumerate(reply.calls):
            if call.free_text is not None:
                out.append({"type": "custom_tool_call", "id": "ctc_%s_%d" % (tag, n), "call_id": call.call_id,
                            "name": call.name, "input": call.free_text, "status": "completed"})
            else:
                out.append({"type": "function_call", "id": "fc_%s_%d" % (tag, n), "call_id": call.call_id,
                            "name": call.name, "arguments": json.dumps(call.args), "status": "completed"})
        return out

    def envelope(self, reply, status, output):
        return {"id": "resp_scripted_%s" % reply.turn, "object": "response", "created_at": self.stamp,
                "status": status, "model": self.body.get("model"), "output": output, "error": None,
                "incomplete_details": None, "parallel_tool_calls": True, "tools": [],
                "usage": self.usage(reply) if status == "completed" else None}

    def whole(self, reply):
        return self.envelope(reply, "completed", self.output(reply))

    def events(self, reply):
        counter = [0]

        def event(kind, **fields):
            fields.update(type=kind, sequence_number=counter[0])
            counter[0] += 1
            return self.sse(fields, kind)
        yield event("response.created", response=self.envelope(reply, "in_progress", []))
        yield event("response.in_progress", response=self.envelope(reply, "in_progress", []))
        output = self.output(reply)
        for index, item in enumerate(output):
            at = {"output_index": index, "item_id": item["id"]}
            start = dict(item, status="in_progress")
            if item["type"] == "message":
                start["content"] = []
            elif item["type"] == "function_call":
                start["arguments"] = ""
            elif item["type"] == "custom_tool_call":
                start["input"] = ""
            elif item["type"] == "reasoning":
                start = dict(item, summary=[])
            yield event("response.output_item.added", output_index=index, item=start)
            if item["type"] == "message":
                text = item["content"][0]["text"]
                yield event("response.content_part.added", content_index=0,
                            part={"type": "output_text", "text": "", "annotations": []}, **at)
                for piece in pieces(text, self.chunk_chars):
                    yield event("response.output_text.delta", content_index=0, delta=piece, **at)
                yield event("response.output_text.done", content_index=0, text=text, **at)
                yield event("response.content_part.done", content_index=0, part=item["content"][0], **at)
            elif item["type"] == "function_call":
                for piece in pieces(item["arguments"], self.chunk_chars):
                    yield event("response.function_call_arguments.delta", delta=piece, **at)
                yield event("response.function_call_arguments.done", arguments=item["arguments"], **at)
            elif item["type"] == "custom_tool_call":
                for piece in pieces(item["input"], self.chunk_chars):
                    yield event("response.custom_tool_call_input.delta", delta=piece, **at)
                yield event("response.custom_tool_call_input.done", input=item["input"], **at)
            elif item["type"] == "reasoning":
                yield event("response.reasoning_summary_part.added", summary_index=0,
                            part={"type": "summary_text", "text": ""}, **at)
                for piece in pieces(reply.think, self.chunk_chars):
                    yield event("response.reasoning_summary_text.delta", summary_index=0, delta=piece, **at)
                yield event("response.reasoning_summary_text.done", summary_index=0, text=reply.think, **at)
            yield event("response.output_item.done", output_index=index, item=item)
        yield event("response.completed", response=self.envelope(reply, "completed", output))

    def error(self, status, text):
        return {"error": {"message": text, "type": "scripted_error", "code": str(status)}}


class Anthropic(Protocol):
    def parse(self):
        body, items = self.body, []
        if body.get("system"):
            items.append(Item("system", flat(body["system"])))
        for message in body.get("messages", []):
            content = message.get("content")
            if isinstance(content, str):
                content = [{"type": "text", "text": content}]
            for part in content or []:
                kind = part.get("type")
                if kind == "tool_use":
                    items.append(Item("call", json.dumps(part.get("input")), part.get("id", ""), part.get("name", "")))
                elif kind == "tool_result":
                    items.append(Item("result", flat(part.get("content")), part.get("tool_use_id", "")))
                elif kind == "text":
                    role = message.get("role")
                    items.append(Item("assistant" if role == "assistant" else "user", part.get("text", "")))
        tools = {t["name"]: t.get("input_schema") or {} for t in body.get("tools") or [] if "input_schema" in t}
        return Ask(body.get("model", "?"), bool(body.get("stream")), items, tools, len(json.dumps(body)))

    def usage(self, reply):
        u = reply.usage
        return {"input_tokens": u["input"], "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": u.get("cached", 0), "output_tokens": u["output"]}

    def blocks(self, reply):
        out = []
        if reply.think:
            out.append({"type": "thinking", "thinking": reply.think, "signature": "c2NyaXB0ZWQ="})
        if reply.text or not reply.calls:
            out.append({"type": "text", "text": reply.text})
        for call in reply.calls:
            out.append({"type": "tool_use", "id": call.call_id.replace("call_", "toolu_"),
                        "name": call.name, "input": call.args})
        return out

    def whole(self, reply):
        return {"id": "msg_scripted_%s" % reply.turn, "type": "message", "role": "assistant",
                "model": self.body.get("model"), "content": self.blocks(reply),
                "stop_reason": "tool_use" if reply.calls else "end_turn", "stop_sequence": None,
                "usage": self.usage(reply)}

    def events(self, reply):
        def event(kind, **fields):
            return self.sse(dict(fields, type=kind), kind)
        start = dict(self.whole(reply), content=[], stop_reason=None)
        start["usage"] = dict(start["usage"], output_tokens=1)
        yield event("message_start", message=start)
        yield event("ping")
        for index, block in enumerate(self.blocks(reply)):
            if block["type"] == "text":
                yield event("content_block_start", index=index, content_block={"type": "text", "text": ""})
                deltas = [{"type": "text_delta", "text": p} for p in pieces(block["text"], self.chunk_chars)]
            elif block["type"] == "thinking":
                yield event("content_block_start", index=index,
                            content_block={"type": "thinking", "thinking": "", "signature": ""})
                deltas = [{"type": "thinking_delta", "thinking": p} for p in pieces(block["thinking"], self.chunk_chars)]
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
            else:
                yield event("content_block_start", index=index, content_block=dict(block, input={}))
                deltas = [{"type": "input_json_delta", "partial_json": p}
                          for p in pieces(json.dumps(block["input"]), self.chunk_chars)]
            for delta in deltas:
                yield event("content_block_delta", index=index, delta=delta)
            yield event("content_block_stop", index=index)
        yield event("message_delta", delta={"stop_reason": "tool_use" if reply.calls else "end_turn", "stop_sequence": None},
                    usage=self.usage(reply))
        yield event("message_stop")

    def error(self, status, text):
        kind = {429: "rate_limit_error", 529: "overloaded_error", 401: "authentication_error"}.get(status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": text}}


class Gemini(Protocol):
    def parse(self):
        body, items = self.body, []
        system = body.get("systemInstruction") or body.get("system_instruction")
        if system:
            items.append(Item("system", flat(system.get("parts") if isinstance(system, dict) else system)))
        for content in body.get("contents") or []:
            for part in content.get("parts") or []:
                if "functionCall" in part:
                    call = part["functionCall"]
                    items.append(Item("call", json.dumps(call.get("args")), call.get("id") or "", call.get("name", "")))
                elif "functionResponse" in part:
                    response = part["functionResponse"]
                    items.append(Item("result", json.dumps(response.get("response")), response.get("id") or ""))
                elif part.get("text"):
                    if not part.get("thought"):
                        items.append(Item("assistant" if content.get("role") == "model" else "user", part["text"]))
        tools = {}
        for tool in body.get("tools") or []:
            for function in tool.get("functionDeclarations") or []:
                schema = function.get("parametersJsonSchema") or function.get("parameters") or {}
                tools[function["name"]] = self.lower_types(schema)
        stream = ":streamGenerateContent" in self.path
        model = re.search(r"/models/([^:/]+)", self.path)
        return Ask(model.group(1) if model else "?", stream, items, tools, len(json.dumps(body)))

    @classmethod
    def lower_types(cls, schema):
        if isinstance(schema, dict):
            return {k: (v.lower() if k == "type" and isinstance(v, str) else cls.lower_types(v)) for k, v in schema.items()}
        return [cls.lower_types(v) for v in schema] if isinstance(schema, list) else schema

    def usage(self, reply):
        u = reply.usage
        return {"promptTokenCount": u["input"], "candidatesTokenCount": u["output"],
                "totalTokenCount": u["input"] + u["output"], "cachedContentTokenCount": u.get("cached", 0)}

    def document(self, parts, finish=None, usage=None):
        candidate = {"index": 0, "content": {"role": "model", "parts": parts}}
        if finish:
            candidate["finishReason"] = finish
        doc = {"candidates": [candidate], "modelVersion": "scripted", "responseId": "scripted"}
        if usage:
            doc["usageMetadata"] = usage
        return doc

    def call_parts(self, reply):
        return [{"functionCall": {"id": c.call_id, "name": c.name, "args": c.args}} for c in reply.calls]

    def whole(self, reply):
        parts = [{"text": reply.text}] if reply.text else []
        return self.document(parts + self.call_parts(reply), "STOP", self.usage(reply))

    def events(self, reply):
        for piece in pieces(reply.think, self.chunk_chars):
            yield self.sse(self.document([{"text": piece, "thought": True}]))
        for piece in pieces(reply.text, self.chunk_chars):
            yield self.sse(self.document([{"text": piece}]))
        yield self.sse(self.document(self.call_parts(reply) or [{"text": ""}], "STOP", self.usage(reply)))

    def error(self, status, text):
        return {"error": {"code": status, "message": text, "status": "RESOURCE_EXHAUSTED" if status == 429 else "INTERNAL"}}


def protocol_for(path):
    if path.endswith("/chat/completions"):
        return OpenAIChat
    if path.endswith("/responses"):
        return OpenAIResponses
    if path.endswith("/messages"):
        return Anthropic
    if re.search(r":(stream)?[gG]enerateContent$", path):
        return Gemini
    return None


# --------------------------------------------------------------------------
# Server
# --------------------------------------------------------------------------

class State:
    def __init__(self, scenarios, default, log_path, dump_dir, run_defaults=None):
        self.scenarios, self.default = scenarios, default
        self.run_defaults = run_defaults or {}
        self.log_path, self.dump_dir = log_path, dump_dir
        self.lock = threading.Lock()
        self.started = time.time()
        self.clear()

    def clear(self):
        self.requests, self.runs, self.faults = [], {}, {}

    def record(self, entry, body):
        with self.lock:
            entry["n"] = len(self.requests)
            entry["t"] = round(time.time() - self.started, 3)
            self.requests.append(entry)
            if self.log_path:
                with open(self.log_path, "a", encoding="utf-8") as handle:
                    handle.write(json.dumps(entry) + "\n")
            if self.dump_dir:
                with open(os.path.join(self.dump_dir, "%04d.json" % entry["n"]), "w", encoding="utf-8") as handle:
                    json.dump({"entry": entry, "body": body}, handle, indent=1)

    def take_fault(self, key, fault):
        """True while this fault still has to happen for this (scenario, run, turn)."""
        with self.lock:
            used = self.faults.get(key, 0)
            if used >= int(fault.get("times", 1)):
                return False
            self.faults[key] = used + 1
            return True


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "scripted-model"
    state = None

    def log_message(self, *args):
        pass

    # -- helpers ----------------------------------------------------------
    def read_body(self):
        if "chunked" in (self.headers.get("Transfer-Encoding") or "").lower():
            data = b""
            while True:
                size = int(self.rfile.readline().split(b";")[0].strip() or b"0", 16)
                if size == 0:
                    self.rfile.readline()
                    return data
                data += self.rfile.read(size)
                self.rfile.readline()
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def send_json(self, status, doc, headers=()):
        data = json.dumps(doc).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for key, value in headers:
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def hard_reset(self):
        """Close with a TCP reset instead of an orderly end."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        # rfile and wfile hold references to the socket; detach closes the descriptor at once.
        os.close(self.connection.detach())
        self.rfile = self.wfile = open(os.devnull, "r+b", buffering=0)

    def target(self):
        """Split the path into (scenario name, run id, rest, query)."""
        parts = urllib.parse.urlsplit(self.path)
        path, scenario, run = parts.path, self.state.default, "default"
        found = re.match(r"^/s/([^/]+)(?:/r/([^/]+))?(/.*)?$", path)
        if found:
            scenario, run, path = found.group(1), found.group(2) or run, found.group(3) or "/"
        return scenario, run, path, urllib.parse.parse_qs(parts.query)

    # -- verbs ------------------------------------------------------------
    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        scenario, run, path, query = self.target()
        if path == "/_control/health":
            return self.send_json(200, {"ok": True, "scenarios": sorted(self.state.scenarios)})
        if path == "/_control/requests":
            wanted = query.get("run", [None])[0]
            with self.state.lock:
                rows = [r for r in self.state.requests if wanted in (None, r["run"])]
            return self.send_json(200, rows)
        self.state.record({"run": run, "method": self.command, "path": path, "kind": "other"}, None)
        if path.endswith("/models"):
            names = ["scripted-1"]
            return self.send_json(200, {"object": "list", "has_more": False,
                                        "data": [{"id": n, "object": "model", "type": "model", "display_name": n,
                                                  "created": 0, "owned_by": "scripted"} for n in names],
                                        "models": [{"name": "models/" + n, "displayName": n} for n in names]})
        return self.send_json(404 if path != "/" else 200, {"error": {"message": "not scripted: " + path}})

    def do_POST(self):
        scenario_name, run, path, _ = self.target()
        raw = self.read_body()
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            body = {}
        if path.startswith("/_control/runs/"):
            with self.state.lock:
                self.state.runs.setdefault(path.rsplit("/", 1)[1], {}).update(body)
            return self.send_json(200, {"ok": True})
        if path == "/_control/reset":
            with self.state.lock:
                self.state.clear()
            return self.send_json(200, {"ok": True})
        protocol_class = protocol_for(path)
        if protocol_class is None:
            self.state.record({"run": run, "method": "POST", "path": path, "kind": "other"}, body)
            if path.endswith("count_tokens"):
                return self.send_json(200, {"input_tokens": len(raw) // 4})
            if path.endswith(":countTokens"):
                return self.send_json(200, {"totalTokens": len(raw) // 4})
            return self.send_json(404, {"error": {"message": "not scripted: " + path}})
        self.answer(scenario_name, run, path, body, protocol_class)

    def answer(self, scenario_name, run, path, body, protocol_class):
        scenario = self.state.scenarios.get(scenario_name)
        protocol = protocol_class(body, path)
        if scenario is None:
            return self.send_json(400, protocol.error(400, "no scenario named %s" % scenario_name))
        ask = protocol.parse()
        turn_number, attempt = place_in_script(ask, scenario)
        with self.state.lock:
            settings = dict(self.state.run_defaults, **self.state.runs.get(run, {}))
        side = is_side_request(ask, int(settings.get("min_tools") or 1))
        if side:
            reply = Reply(text=scenario.side_reply)
        else:
            reply = compose(ask, scenario, turn_number, attempt, settings.get("cwd"))
        turn = {} if side or turn_number >= len(scenario.turns) else scenario.turns[turn_number]
        reply.turn = None if side else turn_number
        if not turn.get("usage"):
            written = len(reply.text) + len(reply.think) + sum(len(json.dumps(c.args)) for c in reply.calls)
            reply.usage = {"input": ask.size // 4, "output": max(1, written // 4), "cached": 0}
        results = ask.last_results()
        entry = {"run": run, "method": "POST", "path": path, "kind": "side" if side else "turn",
                 "protocol": protocol_class.__name__, "model": ask.model, "stream": ask.stream,
                 "scenario": scenario.name, "turn": reply.turn, "attempt": attempt,
                 "tools": sorted(ask.tools), "calls": [[c.name, c.args if c.free_text is None else c.free_text] for c in reply.calls],
                 "results": results[-2000:], "agent": self.headers.get("User-Agent", ""),
                 "authorised": bool(self.headers.get("Authorization") or self.headers.get("x-api-key")
                                    or self.headers.get("x-goog-api-key"))}
        if "expect" in turn:
            entry["expect_ok"] = bool(re.search(turn["expect"], results, re.S))
        fault = turn.get("fault")
        if fault and not self.state.take_fault((scenario.name, run, turn_number), fault):
            fault = None
        if fault:
            entry["fault"] = fault["kind"]
        self.state.record(entry, body)
        try:
            self.deliver(protocol, ask, reply, turn, fault)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def deliver(self, protocol, ask, reply, turn, fault):
        kind = fault["kind"] if fault else None
        if turn.get("delay_ms"):
            time.sleep(turn["delay_ms"] / 1000.0)
        if kind == "hold":
            time.sleep(float(fault.get("seconds", 20)))
        elif kind == "status":
            status = int(fault.get("status", 500))
            headers = [("Retry-After", str(fault["retry_after"]))] if "retry_after" in fault else []
            return self.send_json(status, protocol.error(status, fault.get("message", "scripted failure")), headers)
        elif kind == "reset" and "after_events" not in fault:
            return self.hard_reset()
        if not ask.stream:
            return self.send_json(200, protocol.whole(reply))
        protocol.chunk_chars = int(turn.get("chunk_chars", 24))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        stop_after = int(fault.get("after_events", 2)) if kind in ("reset", "stall", "truncate", "garbage") else None
        for number, event in enumerate(protocol.events(reply)):
            if stop_after is not None and number >= stop_after:
                if kind == "reset":
                    return self.hard_reset()
                if kind == "stall":
                    time.sleep(float(fault.get("seconds", 600)))
                if kind == "garbage":
                    self.chunk(b"data: {not json\n\n")
                break
            self.chunk(event)
            if turn.get("chunk_delay_ms"):
                time.sleep(turn["chunk_delay_ms"] / 1000.0)
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()
        if kind in ("truncate", "stall", "garbage"):
            self.close_connection = True

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], (ConnectionError, OSError, ValueError)):
            super().handle_error(request, client_address)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", default="127.0.0.1", help="a loopback address, or one for documentation")
    parser.add_argument("--port", type=int, default=8099, help="0 picks a free one")
    parser.add_argument("--scenario", action="append", required=True,
                        help="a scenario file, or a folder of them; the first one given is the default")
    parser.add_argument("--log", help="append one JSON line a request to this file")
    parser.add_argument("--dump-dir", help="write every request body to this folder")
    parser.add_argument("--cwd", help="worktree of the runs that register none")
    parser.add_argument("--min-tools", type=int, default=1,
                        help="requests that offer fewer tools than this are not part of the job")
    parser.add_argument("--port-file", help="write the port to this file once listening")
    parser.add_argument("--check", action="store_true", help="only check the scenario files")
    args = parser.parse_args()
    address = "127.0.0.1" if args.host == "localhost" else args.host
    ranges = [ipaddress.ip_network(text) for text in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")]
    if not (ipaddress.ip_address(address).is_loopback or any(ipaddress.ip_address(address) in one for one in ranges)):
        parser.error("--host must be a loopback address, or one for documentation")
    scenarios, default = {}, None
    for path in args.scenario:
        files = sorted(os.path.join(path, f) for f in os.listdir(path) if f.endswith(".json")) if os.path.isdir(path) else [path]
        for file in files:
            try:
                scenario = Scenario.load(file)
            except (OSError, ValueError, KeyError) as error:
                parser.error("%s: %s" % (file, error))
            scenarios[scenario.name] = scenario
            default = default or scenario.name
    if args.check:
        print("%d scenario files are well formed" % len(scenarios))
        return
    if args.dump_dir:
        os.makedirs(args.dump_dir, exist_ok=True)
    Handler.state = State(scenarios, default, args.log, args.dump_dir,
                          {"cwd": args.cwd, "min_tools": args.min_tools})
    server = Server((address, args.port), Handler)
    port = server.server_address[1]
    if args.port_file:
        with open(args.port_file + ".tmp", "w") as handle:
            handle.write("%d\n" % port)
        os.replace(args.port_file + ".tmp", args.port_file)
    print("scripted model server on http://%s:%d, default scenario %s" % (address, port, default), flush=True)
    try:
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
