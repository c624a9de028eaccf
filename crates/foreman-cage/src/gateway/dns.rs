//! Answers DNS queries from the cage's own table of names. Pure: bytes in, bytes out.
//!
//! Nothing is asked of anybody, so a query carries nothing out of the cage. Only IPv4 addresses are
//! answered: with both families one `connect` would become two holds. Every other type of an
//! ordinary name is answered as empty.

use super::names::{Kind, Names, sort};
use hickory_proto::op::{Edns, Header, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, PTR};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What is told about a query, apart from its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notice {
    /// A name was looked up for the first time.
    FirstLookup(String),
    /// A text that is no name to ask for.
    Refused {
        /// The text, as it was asked.
        text: String,
        /// Why, as a sentence.
        why: String,
    },
    /// There are too many names in this run.
    Full(String),
}

/// Seconds that an answer may be kept; it never changes.
const LIFETIME: u32 = 300;

/// The longest message we take; queries are far shorter.
pub(crate) const LONGEST_QUERY: usize = 4096;

/// The answer to a query, if it deserves one.
pub(crate) fn answer(names: &Names, query: &[u8], mut tell: impl FnMut(Notice)) -> Option<Vec<u8>> {
    let header = Header::read(&mut BinDecoder::new(query)).ok()?;
    if header.message_type == MessageType::Response {
        return None;
    }
    if header.op_code != OpCode::Query {
        return plain(&header, ResponseCode::NotImp);
    }
    let Ok(asked) = Message::from_vec(query) else {
        return plain(&header, ResponseCode::FormErr);
    };
    let [question] = asked.queries.as_slice() else {
        return plain(&header, ResponseCode::FormErr);
    };
    let (code, data) = match decide(names, question, &mut tell) {
        Ok(data) => (ResponseCode::NoError, data),
        Err(code) => (code, None),
    };
    let mut reply = empty_reply(&header, code);
    reply.add_query(question.clone());
    if let Some(data) = data {
        reply.add_answer(Record::from_rdata(question.name.clone(), LIFETIME, data));
    }
    if asked.edns.is_some() {
        let mut edns = Edns::new();
        edns.set_max_payload(1232);
        reply.set_edns(edns);
    }
    reply.to_vec().ok()
}

fn plain(header: &Header, code: ResponseCode) -> Option<Vec<u8>> {
    empty_reply(header, code).to_vec().ok()
}

fn empty_reply(header: &Header, code: ResponseCode) -> Message {
    let mut reply = Message::error_msg(header.id, header.op_code, code);
    reply.metadata.recursion_desired = header.recursion_desired;
    reply.metadata.checking_disabled = header.checking_disabled;
    reply.metadata.recursion_available = true;
    reply
}

/// The one record of the answer, `None` for an empty one.
fn decide(
    names: &Names,
    question: &Query,
    tell: &mut impl FnMut(Notice),
) -> Result<Option<RData>, ResponseCode> {
    if question.query_class != DNSClass::IN {
        return Err(ResponseCode::Refused);
    }
    match question.query_type {
        RecordType::ANY | RecordType::AXFR | RecordType::IXFR => Err(ResponseCode::Refused),
        RecordType::PTR => pointer(names, &question.name).map(Some),
        wanted if question.name.is_root() => {
            let _ = wanted;
            Ok(None)
        }
        wanted => forward(names, &text_of(&question.name), wanted, tell),
    }
}

fn forward(
    names: &Names,
    text: &str,
    wanted: RecordType,
    tell: &mut impl FnMut(Notice),
) -> Result<Option<RData>, ResponseCode> {
    match sort(text) {
        Kind::Ordinary(name) => {
            let Some(assigned) = names.assign(&name) else {
                tell(Notice::Full(name));
                return Err(ResponseCode::ServFail);
            };
            if assigned.first_time {
                tell(Notice::FirstLookup(name));
            }
            Ok((wanted == RecordType::A).then_some(RData::A(A(assigned.address))))
        }
        Kind::Localhost => Ok(match wanted {
            RecordType::A => Some(RData::A(A(Ipv4Addr::LOCALHOST))),
            RecordType::AAAA => Some(RData::AAAA(AAAA(Ipv6Addr::LOCALHOST))),
            _ => None,
        }),
        Kind::Absent => Err(ResponseCode::NXDomain),
        Kind::Refused(why) => {
            tell(Notice::Refused {
                text: text.to_owned(),
                why,
            });
            Err(ResponseCode::NXDomain)
        }
    }
}

fn pointer(names: &Names, asked: &Name) -> Result<RData, ResponseCode> {
    let network = asked
        .parse_arpa_name()
        .map_err(|_| ResponseCode::NXDomain)?;
    let address = network.addr();
    let whole = network.prefix_len() == network.max_prefix_len();
    let name = match names.name_of(address) {
        Some(name) if whole => name.as_ref().to_owned(),
        None if whole && is_loopback(address) => "localhost".to_owned(),
        _ => return Err(ResponseCode::NXDomain),
    };
    let name = Name::from_ascii(format!("{name}.")).map_err(|_| ResponseCode::NXDomain)?;
    Ok(RData::PTR(PTR(name)))
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// The name as text. Bytes that no host name has are written in a way that none has either.
fn text_of(name: &Name) -> String {
    let mut text = String::new();
    for label in name.iter() {
        if !text.is_empty() {
            text.push('.');
        }
        for &byte in label {
            if byte.is_ascii_graphic() && byte != b'.' && byte != b'\\' {
                text.push(char::from(byte));
            } else {
                text.push_str(&format!("\\{byte:03}"));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn query(name: &str, kind: RecordType) -> Message {
        query_for(Name::from_ascii(name).unwrap(), kind)
    }

    fn query_for(name: Name, kind: RecordType) -> Message {
        let mut message = Message::query();
        message.metadata.recursion_desired = true;
        message.add_query(Query::query(name, kind));
        message
    }

    fn ask(names: &Names, message: &Message) -> (Message, Vec<Notice>) {
        let mut notices = Vec::new();
        let bytes = answer(names, &message.to_vec().unwrap(), |notice| {
            notices.push(notice)
        });
        (Message::from_vec(&bytes.unwrap()).unwrap(), notices)
    }

    fn address(reply: &Message) -> Option<Ipv4Addr> {
        match reply.answers.first()?.data {
            RData::A(A(address)) => Some(address),
            _ => None,
        }
    }

    #[test]
    fn a_name_gets_one_address_and_is_told_once() {
        let names = Names::default();
        let (first, notices) = ask(&names, &query("Registry.Example.", RecordType::A));
        assert_eq!(notices, [Notice::FirstLookup("registry.example".into())]);
        assert_eq!(first.queries[0].name.to_ascii(), "Registry.Example.");
        assert!(first.recursion_available && first.recursion_desired);
        let (second, notices) = ask(&names, &query("registry.example.", RecordType::A));
        assert_eq!(notices, []);
        assert!(address(&first).is_some());
        assert_eq!(address(&first), address(&second));
    }

    #[test]
    fn other_types_are_empty() {
        let names = Names::default();
        for kind in [
            RecordType::AAAA,
            RecordType::TXT,
            RecordType::HTTPS,
            RecordType::MX,
        ] {
            let (reply, _) = ask(&names, &query("registry.example.", kind));
            assert_eq!(reply.response_code, ResponseCode::NoError);
            assert!(reply.answers.is_empty(), "{kind}");
        }
        let (reply, _) = ask(&names, &query("registry.example.", RecordType::ANY));
        assert_eq!(reply.response_code, ResponseCode::Refused);
    }

    #[test]
    fn an_address_leads_back_to_its_name() {
        let names = Names::default();
        let (reply, _) = ask(&names, &query("a.example.", RecordType::A));
        let given = Name::from(IpAddr::from(address(&reply).unwrap())).to_ascii();
        let (reply, _) = ask(&names, &query(&given, RecordType::PTR));
        let RData::PTR(PTR(name)) = &reply.answers[0].data else {
            panic!("{reply:?}")
        };
        assert_eq!(name.to_ascii(), "a.example.");
        let (reply, _) = ask(&names, &query("9.0.0.127.in-addr.arpa.", RecordType::PTR));
        let RData::PTR(PTR(name)) = &reply.answers[0].data else {
            panic!("{reply:?}")
        };
        assert_eq!(name.to_ascii(), "localhost.");
        let (reply, _) = ask(
            &names,
            &query("10.113.0.203.in-addr.arpa.", RecordType::PTR),
        );
        assert_eq!(reply.response_code, ResponseCode::NXDomain);
    }

    #[test]
    fn what_is_no_name_is_refused_with_a_reason() {
        let names = Names::default();
        for label in [
            &b"a b"[..],
            b"a\0b",
            b"a\r\nb",
            b"a.b",
            b"\xff",
            b"a\\b",
            b"printer",
        ] {
            let name = Name::from_labels([label, b"local"]).unwrap();
            let (reply, notices) = ask(&names, &query_for(name, RecordType::A));
            assert_eq!(reply.response_code, ResponseCode::NXDomain, "{label:?}");
            assert!(
                matches!(notices[..], [Notice::Refused { .. }]),
                "{label:?}: {notices:?}"
            );
        }
    }

    #[test]
    fn localhost_is_the_cage_itself() {
        let (reply, notices) = ask(&Names::default(), &query("localhost.", RecordType::A));
        assert_eq!(
            (address(&reply), notices),
            (Some(Ipv4Addr::LOCALHOST), vec![])
        );
    }

    #[test]
    fn a_query_with_extensions_gets_an_answer_with_extensions() {
        let mut asked = query("a.example.", RecordType::A);
        asked.set_edns(Edns::new());
        assert!(ask(&Names::default(), &asked).0.edns.is_some());
    }

    #[test]
    fn broken_queries_get_an_error_and_responses_nothing() {
        let names = Names::default();
        let good = query("a.example.", RecordType::A).to_vec().unwrap();
        let cut = answer(&names, &good[..good.len() - 3], |_| {}).unwrap();
        let reply = Message::from_vec(&cut).unwrap();
        assert_eq!(reply.response_code, ResponseCode::FormErr);
        assert_eq!(reply.id, u16::from_be_bytes([good[0], good[1]]));
        assert_eq!(answer(&names, &cut, |_| {}), None);
        assert_eq!(answer(&names, &good[..5], |_| {}), None);
        let mut two = query("a.example.", RecordType::A);
        two.add_query(Query::query(
            Name::from_ascii("b.example.").unwrap(),
            RecordType::A,
        ));
        assert_eq!(ask(&names, &two).0.response_code, ResponseCode::FormErr);
        let mut update = query("a.example.", RecordType::A);
        update.metadata.op_code = OpCode::Update;
        let reply = answer(&names, &update.to_vec().unwrap(), |_| {}).unwrap();
        assert_eq!(reply[3] & 0x0f, 4);
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_asked(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = answer(&Names::default(), &bytes, |_| {});
        }

        #[test]
        fn any_damage_to_a_query_can_be_asked(at: usize, value: u8, cut: usize) {
            let mut bytes = query("some.registry.example.", RecordType::A).to_vec().unwrap();
            let length = bytes.len();
            bytes[at % length] = value;
            bytes.truncate(length - cut % length);
            if let Some(reply) = answer(&Names::default(), &bytes, |_| {}) {
                prop_assert!(reply.len() <= 512);
            }
        }
    }
}
