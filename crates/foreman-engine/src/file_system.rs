//! On which file system the data directory is.
//!
//! The database's write-ahead log needs memory that all its processes share and locks that hold, and both
//! logs need syncs that reach a disk. File systems over a network promise none of it, and are refused.
//! Those in user space and those of a virtual machine's host may be as good as a local one, or a network's
//! in disguise: their magic numbers do not say which, so they are let through with a warning.

use foreman_domain::{Code, Failure};
use nix::sys::statfs::statfs;
use std::path::Path;

/// Whether a data directory may be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Local,
    /// It may be one over a network.
    Unsure(&'static str),
    Network(&'static str),
}

/// By magic number, as `statfs` gives it in the low 32 bits.
const NAMED: &[(u32, Standing)] = &[
    (0x6969, Standing::Network("NFS")),
    (0x517b, Standing::Network("SMB")),
    (0xff53_4d42, Standing::Network("CIFS")),
    (0xfe53_4d42, Standing::Network("SMB 2")),
    (0x564c, Standing::Network("NCP")),
    (0x5346_414f, Standing::Network("AFS")),
    (0x6b41_4653, Standing::Network("AFS")),
    (0x7375_7245, Standing::Network("Coda")),
    (0x00c3_6400, Standing::Network("Ceph")),
    (0x0bd0_0bd0, Standing::Network("Lustre")),
    (0x4750_4653, Standing::Network("GPFS")),
    (0x1983_0326, Standing::Network("BeeGFS")),
    (0x7461_636f, Standing::Network("OCFS2")),
    (0x0116_1970, Standing::Network("GFS2")),
    (0x2003_0528, Standing::Network("OrangeFS")),
    (0x013d_ef73, Standing::Network("Panasas")),
    (0x0102_1997, Standing::Unsure("9P")),
    (
        0x6573_5546,
        Standing::Unsure("a file system in user space (FUSE)"),
    ),
    (
        0x786f_4256,
        Standing::Unsure("a shared folder of VirtualBox"),
    ),
    (0xbacb_acbc, Standing::Unsure("a shared folder of VMware")),
];

fn standing_of(magic: u32) -> Standing {
    let named = NAMED.iter().find(|(known, _)| *known == magic);
    named.map_or(Standing::Local, |(_, standing)| *standing)
}

fn standing(place: &Path) -> Standing {
    // Whoever cannot say what it is does not keep anybody from using it.
    let Ok(found) = statfs(place) else {
        return Standing::Local;
    };
    let bytes = found.filesystem_type().0.to_ne_bytes();
    let (low, _) = bytes.split_at(4);
    standing_of(low.try_into().map_or(0, u32::from_le_bytes))
}

/// Refuses a place on a network file system.
pub(crate) fn refuse_network(place: &Path) -> Result<(), Failure> {
    match standing(place) {
        Standing::Local => Ok(()),
        Standing::Unsure(name) => {
            tracing::warn!(place = %place.display(), "the data directory is on {name}");
            Ok(())
        }
        Standing::Network(name) => Err(Failure::new(
            Code::Environment,
            format!(
                "the data directory {} is on a network file system ({name}), which cannot keep a \
                 database safe",
                place.display()
            ),
        )
        .hint("Set FOREMAN_DATA_DIR to a directory on a local disk.")),
    }
}

/// What is to be said of the place, for the doctor.
pub(crate) fn in_words(place: &Path) -> Option<String> {
    match standing(place) {
        Standing::Local => None,
        Standing::Unsure(name) | Standing::Network(name) => Some(format!(
            "the data directory is on {name}: if that is over a network, put it on a local disk \
             (FOREMAN_DATA_DIR)"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_a_network_is_told_from_what_may_be_and_from_what_is_not() {
        for (name, magic) in [
            ("ext4", 0xef53),
            ("btrfs", 0x9123_683e),
            ("xfs", 0x5846_5342),
        ] {
            assert_eq!(standing_of(magic), Standing::Local, "{name}");
        }
        assert_eq!(standing_of(0x6969), Standing::Network("NFS"));
        assert_eq!(standing_of(0xff53_4d42), Standing::Network("CIFS"));
        assert!(matches!(standing_of(0x6573_5546), Standing::Unsure(_)));
    }

    #[test]
    fn no_number_is_in_the_table_twice() {
        let mut numbers: Vec<_> = NAMED.iter().map(|(magic, _)| magic).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), NAMED.len());
    }

    #[test]
    fn a_directory_of_this_machine_may_be_used() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(refuse_network(dir.path()), Ok(()));
        assert_eq!(refuse_network(Path::new("/proc")), Ok(()));
    }
}
