//! The operator's own machine as a destination: the name `host`, and what its ports give away.
//!
//! A rule for `host` means a port of the machine's loopback, and nothing else does: a name that resolves to
//! loopback stays on the floor, whatever it is called.

use foreman_domain::Host;

/// The name by which a cage reaches ports of the operator's own loopback.
pub const THIS_MACHINE: &str = "host";

/// Whether a destination is the operator's own loopback.
#[must_use]
pub fn is_this_machine(host: &Host) -> bool {
    matches!(host, Host::Name(name) if name == THIS_MACHINE)
}

/// What a port of this machine gives away, as "the container engine: …", by what usually listens there.
#[must_use]
pub fn port_gives_away(port: u16) -> Option<&'static str> {
    Some(match port {
        22 => {
            "signing in to this machine: whoever has a key or a password for it is outside of the cage"
        }
        2375 | 2376 | 4243 | 10250 => {
            "the container engine: whoever talks to it can start a container that sees and writes every \
             file of this machine"
        }
        5900..=5909 | 6000..=6063 => {
            "your screen: whoever talks to it can see other windows, and type into them"
        }
        4713 => "sound: whoever talks to it can listen to your microphone",
        5005 | 5858 | 9222 | 9229 | 9230 => {
            "a debugger: whoever talks to it runs code in the program that is debugged, outside of the cage"
        }
        6443 | 8001 => "a cluster's API: whoever talks to it can start programs there in your name",
        _ => return None,
    })
}

/// Why no rule opens this, as a sentence: only connections are carried to this machine.
pub(crate) const ONLY_TCP: &str = "Only TCP ports of this machine can be reached from a cage, so no rule can open UDP to \"host\"";
