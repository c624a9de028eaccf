//! What a decision was bound to, as text: it travels with what is shown and comes back with the
//! decision. A token names nothing secret and grants nothing; it only shows that what was seen is
//! what is still there.

use foreman_domain::{Block, HoldId, Revision, Scope};
use foreman_policy::{Offer, Use};
use sha2::{Digest, Sha256};

/// Bytes of the digest that a token carries: 64 bits, typed by nobody, forged by nobody.
const DIGEST_BYTES: usize = 8;

/// Token of a block's card: its id, the policy revision, the candidates, and the newest hold counted
/// on it. The hold is readable, because a later decision "once" covers the holds up to exactly it.
pub(crate) fn of_block(block: &Block, revision: Revision, offers: &[Offer]) -> String {
    bind(block, revision, offers, block.last_hold)
}

/// The newest hold that was on the card, when the token still fits what is there now: other holds may
/// have joined since, anything else may not have moved.
pub(crate) fn check_block(
    token: &str,
    block: &Block,
    revision: Revision,
    offers: &[Offer],
) -> Option<HoldId> {
    let (hold, _) = token.split_once('-')?;
    let hold = HoldId(hold.strip_prefix('h')?.parse().ok()?);
    let fits = hold <= block.last_hold && token == bind(block, revision, offers, hold);
    fits.then_some(hold)
}

fn bind(block: &Block, revision: Revision, offers: &[Offer], hold: HoldId) -> String {
    let mut digest = Sha256::new();
    digest.update(format!(
        "block {} revision {revision} hold {hold}\n",
        block.id
    ));
    if block.file.is_some() {
        // What a denial would refuse grows from a path to its folder.
        digest.update(format!("denies {}\n", block.denied()));
    }
    for offer in offers.iter().filter(|offer| offer.scope != Scope::Once) {
        // "Once" comes and goes with what waits, and is bound by `hold` anyway. Which holds a rule counts for is in `hold`, and how many past events it would also have
        // let through changes all the time: neither makes another candidate.
        let mut rule = offer.rule.clone();
        if let Some(applies) = rule.applies_mut() {
            *applies = Use::Always;
        }
        let rule = serde_json::to_string(&rule).unwrap_or_default();
        digest.update(format!(
            "{} {} {rule}\n",
            offer.scope, offer.needs_confirmation
        ));
    }
    format!("h{hold}-{}", hex(&digest.finalize()))
}

/// Token of a diff: head, base and policy revision.
pub(crate) fn of_diff(head: &str, base: &str, revision: Revision) -> String {
    hex(&Sha256::digest(format!(
        "head {head} base {base} revision {revision}"
    )))
}

/// Token of one commit of a diff that has the token `whole`: never the token of a diff itself.
pub(crate) fn of_commit(whole: &str, commit: &str) -> String {
    hex(&Sha256::digest(format!("commit {commit} of {whole}")))
}

/// Hash of a policy file's text.
pub(crate) fn of_text(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hex(digest: &[u8]) -> String {
    digest
        .iter()
        .take(DIGEST_BYTES)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreman_domain::{At, BlockId, BlockState, Host, Protocol, RunId, Subject};
    use foreman_policy::Offer;

    fn offers(block: &Block, past: &[Subject]) -> Vec<Offer> {
        foreman_policy::offers(block, past, &|_, _| {
            unreachable!("egress asks about no path")
        })
    }

    fn block() -> Block {
        Block {
            id: BlockId::new(RunId::from_random(1), 1),
            subject: Subject::Egress {
                protocol: Protocol::Tcp,
                host: Host::Name("registry.example".into()),
                port: 443,
                resolved: None,
            },
            state: BlockState::Open,
            why: "no rule".into(),
            address_vetted: true,
            waiting: 1,
            seen: 1,
            last_hold: HoldId(3),
            revision: Revision(1),
            first_at: At::from_millis(0),
            last_at: At::from_millis(0),
            holders: vec![],
            file: None,
            socket: None,
            breach: None,
            question: None,
        }
    }

    #[test]
    fn a_block_token_outlives_new_holds_and_remembers_the_ones_it_counted() {
        let shown = block();
        let token = of_block(&shown, Revision(1), &offers(&shown, &[]));
        let mut now = block();
        now.last_hold = HoldId(9);
        now.seen = 7;
        assert_eq!(
            check_block(&token, &now, Revision(1), &offers(&now, &[])),
            Some(HoldId(3))
        );
    }

    #[test]
    fn a_block_token_is_stale_after_a_new_revision_or_for_another_block() {
        let shown = block();
        let offered = offers(&shown, &[]);
        let token = of_block(&shown, Revision(1), &offered);
        assert_eq!(check_block(&token, &shown, Revision(2), &offered), None);
        let mut other = block();
        other.id = BlockId::new(RunId::from_random(1), 2);
        assert_eq!(check_block(&token, &other, Revision(1), &offered), None);
        assert_eq!(
            check_block(&token, &shown, Revision(1), &offered[2..]),
            None
        );
        // That nothing waits any more takes "once" off the card and leaves the rest as it was.
        assert_eq!(
            check_block(&token, &shown, Revision(1), &offered[1..]),
            Some(HoldId(3))
        );
    }

    #[test]
    fn a_token_cannot_be_made_to_cover_more_holds() {
        let shown = block();
        let offered = offers(&shown, &[]);
        let token = of_block(&shown, Revision(1), &offered);
        let mut now = block();
        now.last_hold = HoldId(9);
        let widened = token.replacen("h3-", "h9-", 1);
        for wrong in [
            widened.as_str(),
            "",
            "h3",
            "h3-",
            "3-ab",
            "h99999999999999999999-ab",
        ] {
            assert_eq!(
                check_block(wrong, &now, Revision(1), &offered),
                None,
                "{wrong}"
            );
        }
    }
}
