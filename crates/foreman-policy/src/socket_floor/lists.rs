//! Sockets as data: a path, with `*` for any end of a part, and what it is in words.

pub(super) const OWN: &str = "a socket of the engine's own, through which runs are decided about";
const KERNEL: &str = "in a tree of the kernel's";
const KEYRING: &str = "a socket of your keyring";
const BROWSER: &str = "in a browser's profile";

/// What no rule opens.
pub(super) const FLOOR: &[(&str, &str)] = &[
    ("/proc", KERNEL),
    ("/sys", KERNEL),
    ("/dev", KERNEL),
    ("/run/user/*/foreman", OWN),
    ("/run/foreman", OWN),
    ("~/.local/share/foreman", OWN),
    ("/run/user/*/keyring*", KEYRING),
    ("/run/user/*/kwallet*", KEYRING),
    ("/run/user/*/app/org.keepassxc.KeePassXC", KEYRING),
    ("/run/user/*/kpxc_server", KEYRING),
    ("/tmp/keyring-*", KEYRING),
    ("~/.cache/keyring-*", KEYRING),
    ("~/.local/share/keyrings", KEYRING),
    ("~/.local/share/kwalletd", KEYRING),
    ("~/.config/op", KEYRING),
    ("~/.config/Bitwarden", KEYRING),
    ("~/.config/keepassxc", KEYRING),
    ("~/.mozilla", BROWSER),
    ("~/.thunderbird", BROWSER),
    ("~/.config/google-chrome*", BROWSER),
    ("~/.config/chromium", BROWSER),
    ("~/.config/BraveSoftware", BROWSER),
    ("~/.config/microsoft-edge", BROWSER),
    ("~/.config/vivaldi", BROWSER),
    ("~/.config/opera", BROWSER),
    ("~/.var/app", BROWSER),
    ("~/snap", BROWSER),
];

const CONTAINERS: &str = "the container engine: whoever talks to it can start a container that sees and \
                          writes every file of this machine";
const MACHINES: &str = "a manager of virtual machines: whoever talks to it can reach every file of this \
                        machine";
const SESSION_BUS: &str = "the session bus: whoever talks to it can start programs outside of the cage and \
                           ask your keyring for secrets";
const SYSTEM_BUS: &str = "the system bus: whoever talks to it asks the services of this machine for things \
                          in your name";
const SERVICE_MANAGER: &str = "the service manager: whoever talks to it can start programs outside of the \
                               cage";
const DISPLAY: &str = "your screen: whoever talks to it can see other windows, and type into them";
const SOUND: &str = "sound: whoever talks to it can listen to your microphone";
const SSH_AGENT: &str = "the ssh agent: whoever talks to it signs in with your keys wherever they are \
                         accepted";
const GPG_AGENT: &str = "the gpg agent: whoever talks to it signs and decrypts with your keys";
const TERMINALS: &str =
    "terminals of yours: whoever talks to it can type commands outside of the cage";
const EDITOR: &str = "an editor of yours: whoever talks to it can run commands outside of the cage";
const PACKAGES: &str =
    "a manager of packages: whoever talks to it can install programs on this machine";

/// What gives more away than one service.
pub(super) const GIVES_AWAY: &[(&str, &str)] = &[
    ("/run/docker.sock", CONTAINERS),
    ("/run/docker", CONTAINERS),
    ("/run/user/*/docker.sock", CONTAINERS),
    ("/run/user/*/docker", CONTAINERS),
    ("~/.docker", CONTAINERS),
    ("/var/lib/docker", CONTAINERS),
    ("/run/containerd", CONTAINERS),
    ("/run/user/*/containerd*", CONTAINERS),
    ("/var/lib/containerd", CONTAINERS),
    ("/run/podman", CONTAINERS),
    ("/run/user/*/podman", CONTAINERS),
    ("~/.local/share/containers", CONTAINERS),
    ("/var/lib/containers", CONTAINERS),
    ("/run/crio", CONTAINERS),
    ("/run/buildkit", CONTAINERS),
    ("/run/k3s", CONTAINERS),
    ("/var/lib/kubelet", CONTAINERS),
    ("~/.colima", CONTAINERS),
    ("~/.rd", CONTAINERS),
    ("/run/libvirt", MACHINES),
    ("/run/user/*/libvirt", MACHINES),
    ("/var/lib/lxd", MACHINES),
    ("/var/lib/incus", MACHINES),
    ("/var/snap/lxd", MACHINES),
    ("/run/lxd*", MACHINES),
    ("/run/incus*", MACHINES),
    ("/run/user/*/bus", SESSION_BUS),
    ("/run/user/*/dbus-1", SESSION_BUS),
    ("/run/user/*/at-spi", SESSION_BUS),
    ("/tmp/dbus-*", SESSION_BUS),
    ("/run/dbus", SYSTEM_BUS),
    ("/run/systemd", SERVICE_MANAGER),
    ("/run/user/*/systemd", SERVICE_MANAGER),
    ("/tmp/.X11-unix", DISPLAY),
    ("/tmp/.ICE-unix", DISPLAY),
    ("/run/user/*/wayland-*", DISPLAY),
    ("/run/user/*/gamescope-*", DISPLAY),
    ("/run/user/*/hypr", DISPLAY),
    ("/run/user/*/sway-ipc*", DISPLAY),
    ("/run/user/*/pulse", SOUND),
    ("/run/user/*/pipewire-*", SOUND),
    ("/tmp/ssh-*", SSH_AGENT),
    ("/run/user/*/ssh-agent*", SSH_AGENT),
    ("/run/user/*/openssh_agent", SSH_AGENT),
    ("/run/user/*/gcr", SSH_AGENT),
    ("~/.ssh", SSH_AGENT),
    ("~/.1password", SSH_AGENT),
    ("/run/user/*/gnupg", GPG_AGENT),
    ("~/.gnupg", GPG_AGENT),
    ("/tmp/tmux-*", TERMINALS),
    ("/run/user/*/tmux-*", TERMINALS),
    ("/run/tmux", TERMINALS),
    ("/run/screen", TERMINALS),
    ("/run/user/*/zellij", TERMINALS),
    ("/run/user/*/vscode-*", EDITOR),
    ("/run/user/*/emacs", EDITOR),
    ("/run/user/*/nvim*", EDITOR),
    ("/tmp/nvim*", EDITOR),
    ("/run/snapd*", PACKAGES),
    ("/nix/var/nix/daemon-socket", PACKAGES),
    ("/run/pcscd", GPG_AGENT),
];
