// The disk of the test machine: a stock Debian with systemd, control groups of version 2, a session bus and an
// ordinary user `op`. Made once, as root, from Debian's own packages, and kept in a cache; every start works on a
// copy that is thrown away.

import { execFileSync } from "node:child_process";
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { basename, join } from "node:path";
import { ask, isRoot, which } from "../../scripts/shell.mjs";

/** Raised when what is made here changes. */
const RECIPE = 4;

/** What must be on this machine, to make a disk and to start it. */
export const VM_PACKAGES = [
  { name: "qemu-system-x86", why: "runs the test machine", has: () => which("qemu-system-x86_64") },
  { name: "qemu-utils", why: "makes its disks", has: () => which("qemu-img") },
  { name: "mmdebstrap", why: "unpacks a stock Debian for it", has: () => which("mmdebstrap") },
  { name: "e2fsprogs", why: "makes its file system", has: () => which("mke2fs") },
  { name: "cpio", why: "packs what finds its disk", has: () => which("cpio") },
  { name: "kmod", why: "lists the modules that find its disk", has: () => which("depmod") && which("modprobe") },
  { name: "openssh-client", why: "runs commands in it", has: () => which("ssh") },
];

/** What is on it: the system, and the clients that the suites attack with. */
const PACKAGES = [
  "systemd", "systemd-sysv", "dbus", "dbus-user-session", "libpam-systemd", "udev", "kmod", "openssh-server", "procps", "util-linux", "passwd",
  "iproute2", "nftables", "git", "python3", "curl", "wget", "busybox-static", "ca-certificates", "libsqlite3-0",
];

/** Units that only cost time on a machine that lives for minutes. */
const NOT_NEEDED = [
  "systemd-networkd-wait-online.service", "e2scrub_reap.service", "e2scrub_all.timer", "apt-daily.timer", "apt-daily-upgrade.timer",
  "dpkg-db-backup.timer", "fstrim.timer", "getty@tty1.service", "serial-getty@ttyS0.service", "systemd-random-seed.service",
  "systemd-update-utmp.service", "systemd-update-utmp-runlevel.service", "systemd-pstore.service", "systemd-journal-flush.service",
  "systemd-firstboot.service", "dev-hugepages.mount", "sys-kernel-debug.mount", "sys-kernel-tracing.mount", "modprobe@drm.service",
  "modprobe@efi_pstore.service", "modprobe@dm_mod.service", "modprobe@loop.service", "systemd-remount-fs.service", "ldconfig.service",
  "systemd-hwdb-update.service", "systemd-journal-catalog-update.service",
];

/** The first program of the machine: loads what finds the disk, and hands over to systemd. */
const FIRST = `#!/bin/busybox sh
/bin/busybox mount -t devtmpfs d /dev; /bin/busybox mount -t proc p /proc; /bin/busybox mount -t sysfs s /sys
while read m; do /bin/busybox insmod /m/$m; done < /order
i=0; while [ ! -b /dev/vda ] && [ $i -lt 100 ]; do /bin/busybox sleep 0.1; i=$((i+1)); done
/bin/busybox mount -t ext4 -o noatime /dev/vda /r
/bin/busybox umount /proc /sys; /bin/busybox mount --move /dev /r/dev
exec /bin/busybox switch_root /r /lib/systemd/systemd
`;

/** The release of Debian that this machine's programs run on: its own, or the oldest they can be built on. */
function suite() {
  const text = existsSync("/etc/os-release") ? readFileSync("/etc/os-release", "utf8") : "";
  const isDebian = /^ID=debian$/m.test(text);
  return process.env.FOREMAN_VM_SUITE ?? (isDebian && /^VERSION_CODENAME=(\w+)$/m.exec(text)?.[1]) ?? "trixie";
}

/** Where disks are kept. */
export function cache() {
  const base = process.env.XDG_CACHE_HOME || join(homedir(), ".cache");
  return process.env.FOREMAN_VM_CACHE ?? join(base, "foreman-test-vm");
}

/**
 * The disk, kernel and key of the test machine, made when they are not there. `kernel` is `stable` or `backports`.
 * Throws a sentence when they cannot be had.
 */
export function image(kernel) {
  const release = suite();
  const folder = join(cache(), `${release}-${kernel}`);
  const files = { disk: join(folder, "disk.raw"), kernel: join(folder, "vmlinuz"), initrd: join(folder, "initrd"), key: join(folder, "key") };
  const mark = join(folder, "made-of");
  const made = `${RECIPE} ${PACKAGES.join(" ")}`;
  if (existsSync(mark) && readFileSync(mark, "utf8") === made) return files;
  if (!isRoot) throw new Error("the machine's disk can only be made as root, once");
  console.log(`making the test machine's disk: Debian ${release}, kernel ${kernel}; this takes some minutes, once`);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const root = join(folder, "root");
  unpack(release, kernel, root);
  const version = readdirSync(join(root, "lib/modules"))[0];
  run("depmod", ["-b", root, version]);
  cpSync(join(root, "boot", `vmlinuz-${version}`), files.kernel);
  settle(root, files.key);
  packFirst(root, version, join(folder, "first"), files.initrd);
  const unfinished = `${files.disk}.part`;
  run("mke2fs", ["-q", "-F", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-d", root, unfinished, "4G"]);
  renameSync(unfinished, files.disk);
  rmSync(root, { recursive: true, force: true });
  writeFileSync(mark, made);
  return files;
}

function run(program, args, options = {}) {
  try {
    return execFileSync(program, args, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"], maxBuffer: 1 << 28, ...options });
  } catch (error) {
    const said = `${error.stderr ?? ""}`.trim().split("\n").slice(-3).join(" / ");
    throw new Error(`${program} failed: ${said || error.message}`);
  }
}

/** Where this machine has its own packages from. */
function mirror() {
  const listed = ask("apt-get", ["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]) ?? "";
  const found = listed.split("\n").find((line) => /\/debian\/?$/.test(line));
  if (!found) throw new Error("this machine's own package source is not known");
  return found;
}

/** A stock Debian in a folder. The kernel's package is unpacked, not installed: no initramfs is made. */
function unpack(release, kernel, root) {
  const source = kernel === "backports" ? `${release}-backports` : release;
  const fetchKernel =
    `set -e; cd "$1/tmp"; name=$(chroot "$1" apt-cache depends -t ${source} linux-image-amd64 | sed -n 's/^ *Depends: \\(linux-image-[0-9].*\\)/\\1/p' | head -1); ` +
    `chroot "$1" sh -c "cd /tmp && apt-get -qq -t ${source} download $name"; dpkg-deb -x linux-image-*.deb x; ` +
    `mkdir -p "$1/boot" "$1/lib/modules"; cp x/boot/vmlinuz-* "$1/boot/"; cp -a x/lib/modules/* "$1/lib/modules/" || cp -a x/usr/lib/modules/* "$1/lib/modules/"; rm -rf x ./*.deb`;
  const args = [
    "--quiet", "--variant=minbase", "--mode=root", `--include=${PACKAGES.join(",")}`, '--aptopt=Apt::Install-Recommends "false"',
    "--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
    `--customize-hook=${fetchKernel}`, release, root,
  ];
  if (kernel === "backports") args.push("", `deb ${mirror()} ${release}-backports main`);
  run("mmdebstrap", args);
}

/** An ordinary user whose service manager is up from the start, as after a log-in; a key to come in by; a quick start. */
function settle(root, key) {
  const write = (path, text) => {
    mkdirSync(join(root, path, ".."), { recursive: true });
    writeFileSync(join(root, path), text);
  };
  run("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", "foreman-test", "-f", key]);
  write("etc/hostname", "foreman-test\n");
  write("etc/hosts", "127.0.0.1 localhost foreman-test\n");
  write("etc/fstab", "/dev/vda / ext4 rw,noatime 0 0\n");
  run("chroot", [root, "useradd", "-m", "-u", "1000", "-s", "/bin/bash", "op"]);
  for (const home of ["root", "home/op"]) {
    write(`${home}/.ssh/authorized_keys`, readFileSync(`${key}.pub`));
    chmodSync(join(root, home, ".ssh"), 0o700);
  }
  run("chroot", [root, "chown", "-R", "op:op", "/home/op"]);
  write("etc/ssh/sshd_config.d/test.conf", "UseDNS no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\nPrintMotd no\nMaxStartups 50\n");
  write("var/lib/systemd/linger/op", "");
  write("etc/systemd/network/10-user.network", "[Match]\nName=e*\n[Network]\nAddress=10.0.2.15/24\nGateway=10.0.2.2\n");
  write("etc/systemd/journald.conf.d/test.conf", "[Journal]\nStorage=volatile\nRuntimeMaxUse=16M\n");
  write("etc/modules-load.d/test.conf", "virtio_net\n");
  run("chroot", [root, "systemctl", "-q", "enable", "systemd-networkd", "ssh"]);
  ask("chroot", [root, "systemctl", "-q", "mask", ...NOT_NEEDED]);
}

/** The few modules that find the disk, behind a shell. */
function packFirst(root, version, folder, initrd) {
  for (const name of ["bin", "m", "dev", "proc", "sys", "r"]) mkdirSync(join(folder, name), { recursive: true });
  const busybox = ["usr/bin/busybox", "bin/busybox"].map((path) => join(root, path)).find((path) => existsSync(path));
  cpSync(busybox, join(folder, "bin/busybox"), { dereference: true });
  const order = [];
  for (const module of ["virtio_pci", "virtio_blk", "ext4"]) {
    const listed = run("modprobe", ["-d", root, "-S", version, "--show-depends", module]);
    for (const [, path] of listed.matchAll(/^insmod (\S+)/gm)) {
      let name = basename(path);
      if (order.includes(name.replace(/\.xz$/, ""))) continue;
      cpSync(path, join(folder, "m", name));
      if (name.endsWith(".xz")) {
        run("xz", ["-d", join(folder, "m", name)]);
        name = name.slice(0, -3);
      }
      order.push(name);
    }
  }
  writeFileSync(join(folder, "order"), `${order.join("\n")}\n`);
  writeFileSync(join(folder, "init"), FIRST, { mode: 0o755 });
  const names = run("find", ["."], { cwd: folder });
  writeFileSync(initrd, execFileSync("cpio", ["-o", "-H", "newc", "--quiet"], { cwd: folder, input: names, maxBuffer: 1 << 28 }));
  rmSync(folder, { recursive: true, force: true });
}
