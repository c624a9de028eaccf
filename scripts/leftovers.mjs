// Removes what a killed test run may have left: users and folders named after a process that is gone.

import { existsSync, readFileSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { ask, isRoot } from "./shell.mjs";

const NAME = /^fm-test-(\d+)-\d+$/;

/** Removes them. Does nothing for anybody but root, whose tests alone make users. */
export function removeLeftovers() {
  if (!isRoot) return;
  for (const line of readFileSync("/etc/passwd", "utf8").split("\n")) {
    const [name, , uid] = line.split(":");
    const match = NAME.exec(name ?? "");
    if (!match || existsSync(`/proc/${match[1]}`)) continue;
    endProcessesOf(Number(uid));
    ask("userdel", [name]);
  }
  for (const folder of ["/var/lib", "/opt"]) {
    for (const name of existsSync(folder) ? readdirSync(folder) : []) {
      const match = NAME.exec(name);
      if (match && !existsSync(`/proc/${match[1]}`)) {
        rmSync(join(folder, name), { recursive: true, force: true });
      }
    }
  }
}

function endProcessesOf(uid) {
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      if (statSync(`/proc/${pid}`).uid === uid) process.kill(Number(pid), "SIGKILL");
    } catch {
      // Ended by itself.
    }
  }
}
