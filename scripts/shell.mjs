// Starts other programs: to their end with output shown or captured, and finds them on PATH.

import { spawn, spawnSync } from "node:child_process";
import { accessSync, constants, statSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The checkout that these scripts belong to. */
export const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** True when we may do what root may. */
export const isRoot = process.getuid?.() === 0;

/** Where a program is, or undefined. */
export function which(name) {
  const folders = [...(process.env.PATH ?? "").split(delimiter), "/usr/sbin", "/sbin"];
  return folders
    .filter(Boolean)
    .map((folder) => join(folder, name))
    .find((path) => {
      try {
        accessSync(path, constants.X_OK);
        return statSync(path).isFile();
      } catch {
        return false;
      }
    });
}

/** Runs a program with our own terminal; gives its exit code. */
export function show(program, args, options = {}) {
  const done = spawnSync(program, args, { stdio: "inherit", cwd: root, ...options });
  if (done.error) throw new Error(`${program} does not start: ${done.error.message}`);
  return done.status ?? 128;
}

/** Runs a program and gives what it printed, or undefined when it failed. */
export function ask(program, args, options = {}) {
  const done = spawnSync(program, args, {
    encoding: "utf8",
    cwd: root,
    maxBuffer: 1 << 28,
    ...options,
  });
  return done.status === 0 ? done.stdout : undefined;
}

/** How long the output of a program that has ended is waited for: whoever it left behind may hold it open for ever. */
const LEFT_OPEN_MS = 5_000;

/**
 * Runs a program with both of its streams captured, and ends it (with all it started) after
 * `minutes`. Gives `{ code, output }`; never throws.
 */
export function capture(program, args, { minutes = 20, stdoutOnly = false, ...options } = {}) {
  return new Promise((resolve) => {
    const child = spawn(program, args, {
      cwd: root,
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
      ...options,
    });
    const chunks = [];
    const errors = stdoutOnly ? [] : chunks;
    let [note, left] = ["", ""];
    child.stdout.on("data", (chunk) => chunks.push(chunk));
    child.stderr.on("data", (chunk) => errors.push(chunk));
    const timer = setTimeout(() => {
      note = `\nended after ${minutes} minutes without an end of its own\n`;
      endGroup(child.pid);
    }, minutes * 60_000);
    const stop = () => endGroup(child.pid);
    process.once("SIGINT", stop).once("SIGTERM", stop);
    const finish = (code) => {
      clearTimeout(timer);
      process.off("SIGINT", stop).off("SIGTERM", stop);
      const output = Buffer.concat(chunks).toString("utf8");
      resolve({
        code: note ? 124 : code,
        output: output + note + left,
        errors: Buffer.concat(errors).toString("utf8"),
      });
    };
    child.on("error", (error) => {
      note = `${program} does not start: ${error.message}\n`;
      finish(127);
    });
    child.on("exit", () => {
      const waited = setTimeout(() => {
        left = "\nit left a process behind that held its output open\n";
        child.stdout.destroy();
        child.stderr.destroy();
      }, LEFT_OPEN_MS);
      child.once("close", () => clearTimeout(waited));
    });
    child.on("close", (code, signal) => finish(code ?? (signal ? 128 : 1)));
  });
}

function endGroup(pid) {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // Already gone.
  }
}
