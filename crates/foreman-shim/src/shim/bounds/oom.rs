//! Whether memory ran out: of the run's own group, or of the whole machine.

use super::group::Group;

/// Processes that the kernel killed so far because there was no memory left: in the run's group where it
/// has one, else on the whole machine.
pub(super) fn kills(group: Option<&Group>) -> u64 {
    match group {
        Some(group) => group.counts().oom_kills,
        None => {
            let counters = std::fs::read_to_string("/proc/vmstat").unwrap_or_default();
            of_the_machine(&counters)
        }
    }
}

fn of_the_machine(counters: &str) -> u64 {
    let mut lines = counters.lines().filter_map(|line| line.split_once(' '));
    let found = lines.find(|(key, _)| *key == "oom_kill");
    found
        .and_then(|(_, count)| count.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_counter_is_read_and_one_that_is_absent_is_none() {
        assert_eq!(of_the_machine("pgfault 7\noom_kill 3\nother 9\n"), 3);
        assert_eq!(of_the_machine("pgfault 7\n"), 0);
    }
}
