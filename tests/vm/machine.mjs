// A running test machine: started on a copy of its disk, reached by ssh over loopback only, gone with this process.
// It can reach nothing: its network is restricted to that one way in.

import { spawn } from "node:child_process";
import { accessSync, constants, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { capture } from "../../scripts/shell.mjs";

/** Longest start, in seconds: an emulated processor on a busy machine takes its time. */
const START_SECONDS = 1200;

/**
 * `kvm` where the processor itself helps, else `tcg`. A /dev/kvm without the module of a processor's maker is itself
 * an emulation, in which a stock kernel hangs or crawls.
 */
export function acceleration() {
  const hardware = ["kvm_intel", "kvm_amd"].some((name) => existsSync(`/sys/module/${name}`));
  try {
    if (hardware) accessSync("/dev/kvm", constants.R_OK | constants.W_OK);
  } catch {
    return "tcg";
  }
  return hardware ? "kvm" : "tcg";
}

function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** Starts a machine on `image`, with `payload` (a file system) as its second, read-only disk at /opt/payload. */
export async function start(image, payload, { memory = 2048, processors = 2 } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "foreman-vm-"));
  const port = await freePort();
  const helped = acceleration();
  const console_ = join(folder, "console.log");
  const args = [
    "-name", "foreman-test", "-M", "pc", "-accel", helped === "kvm" ? "kvm" : "tcg,thread=multi,tb-size=512", "-cpu", helped === "kvm" ? "host" : "max",
    "-m", String(memory), "-smp", String(processors), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
    "-kernel", image.kernel, "-initrd", image.initrd, "-append",
    "console=ttyS0 root=/dev/vda rw quiet loglevel=3 nokaslr mitigations=off cryptomgr.notests random.trust_cpu=on no_timer_check tsc=reliable audit=0 nmi_watchdog=0 systemd.show_status=0",
    "-drive", `file=${image.disk},format=raw,if=virtio,cache=unsafe,snapshot=on`,
    "-drive", `file=${payload},format=raw,if=virtio,cache=unsafe,readonly=on`,
    "-device", "virtio-rng-pci", "-serial", `file:${console_}`, "-monitor", "none",
    "-netdev", `user,id=n0,restrict=on,hostfwd=tcp:127.0.0.1:${port}-:22`, "-device", "virtio-net-pci,netdev=n0,romfile=",
  ];
  const qemu = spawn("nice", ["-n", "15", "qemu-system-x86_64", ...args], { stdio: ["ignore", "ignore", "pipe"], env: { ...process.env, TMPDIR: folder } });
  let said = "";
  qemu.stderr.on("data", (chunk) => (said += chunk));
  let ended = false;
  qemu.on("exit", () => (ended = true));
  qemu.on("error", (error) => {
    said += error.message;
    ended = true;
  });
  const kill = () => qemu.kill("SIGKILL");
  process.once("exit", kill);
  for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(130));

  const ssh = (user) => [
    "-q", "-i", image.key, "-p", String(port), "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR",
    "-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=15", "-o", "BatchMode=yes", `${user}@127.0.0.1`,
  ];
  /** Runs a shell script in the machine, as `op` or root; gives `{ code, output }`. */
  const shell = (script, { user = "op", minutes = 5 } = {}) =>
    capture("ssh", [...ssh(user), `bash -lc ${quote(script)}`], { minutes });

  const down = async () => {
    kill();
    while (!ended) await pause(20);
    process.off("exit", kill);
    rmSync(folder, { recursive: true, force: true });
  };
  const begun = Date.now();
  for (;;) {
    const up = await shell("true", { minutes: 1 });
    if (up.code === 0) break;
    if (ended || Date.now() - begun > START_SECONDS * 1000) {
      const last = existsSync(console_) ? readFileSync(console_, "utf8").trim().split("\n").slice(-5).join(" / ") : "";
      await down();
      throw new Error(`the test machine did not start: ${said.trim()} ${last}`);
    }
    await pause(1000);
  }
  const ready = await shell("systemctl is-system-running --wait >/dev/null; mkdir -p /opt/payload && mount -o ro /dev/vdb /opt/payload && systemctl is-active user@1000.service", { user: "root" });
  if (ready.code !== 0) {
    await down();
    throw new Error(`the test machine is not ready: ${ready.output.trim()}`);
  }
  return { shell, down, helped, seconds: Math.round((Date.now() - begun) / 1000) };
}

function quote(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
