//! The world's name servers. Names say what they want to be:
//!
//! - `ip-10-20-30-40.<anything>`: that address, IPv4; `ip6-<8 groups joined by ->.…`: IPv6;
//! - `rebind-A-B-C-D-E-F-G-H.<anything>`: A.B.C.D on the first question, E.F.G.H ever after;
//! - `nx.<anything>`: no such name; `mute.<anything>`: no answer at all;
//! - `v4.<anything>`: only an A record;
//! - anything else: the world's main host, A and AAAA. TXT is answered with a text.

use hickory_proto::op::{Message, MessageType, OpCode, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, TXT};
use hickory_proto::rr::{RData, Record, RecordType};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Mutex;

/// Answers questions, and remembers which rebinding names were asked.
#[derive(Debug)]
pub struct Names {
    main: Vec<IpAddr>,
    asked: Mutex<HashMap<String, u32>>,
}

/// A question as read, and its answer.
pub struct Answer {
    /// The name that was asked for.
    pub name: String,
    /// The type that was asked for.
    pub record: String,
    /// The answer; `None` stays mute.
    pub bytes: Option<Vec<u8>>,
}

impl Names {
    pub fn new(main: Vec<IpAddr>) -> Self {
        Self {
            main,
            asked: Mutex::default(),
        }
    }

    /// Reads a query and makes its answer; `None` when it is no query.
    pub fn answer(&self, query: &[u8]) -> Option<Answer> {
        let query = Message::from_vec(query).ok()?;
        let question = query.queries.first()?.clone();
        let name = question
            .name()
            .to_ascii()
            .trim_end_matches('.')
            .to_ascii_lowercase();
        let record = question.query_type();
        let mut reply = Message::new(query.metadata.id, MessageType::Response, OpCode::Query);
        reply.metadata.recursion_desired = query.metadata.recursion_desired;
        reply.metadata.recursion_available = true;
        let first = name.split('.').next().unwrap_or_default().to_owned();
        if first == "nx" {
            reply.metadata.response_code = ResponseCode::NXDomain;
        }
        for address in self.addresses(&name, &first, record) {
            let data = match address {
                IpAddr::V4(address) => RData::A(A(address)),
                IpAddr::V6(address) => RData::AAAA(AAAA(address)),
            };
            reply.add_answer(Record::from_rdata(question.name().clone(), 0, data));
        }
        if record == RecordType::TXT && first != "nx" {
            let data = RData::TXT(TXT::new(vec!["upstream text".to_owned()]));
            reply.add_answer(Record::from_rdata(question.name().clone(), 0, data));
        }
        reply.add_query(question);
        let bytes = if first == "mute" {
            None
        } else {
            reply.to_vec().ok()
        };
        Some(Answer {
            name,
            record: record.to_string(),
            bytes,
        })
    }

    fn addresses(&self, name: &str, first: &str, record: RecordType) -> Vec<IpAddr> {
        let all: Vec<IpAddr> = if first == "nx" {
            Vec::new()
        } else if let Some(text) = first.strip_prefix("ip-") {
            text.replace('-', ".")
                .parse::<Ipv4Addr>()
                .map(IpAddr::V4)
                .into_iter()
                .collect()
        } else if let Some(text) = first.strip_prefix("ip6-") {
            text.replace('-', ":")
                .parse::<Ipv6Addr>()
                .map(IpAddr::V6)
                .into_iter()
                .collect()
        } else if let Some(text) = first.strip_prefix("rebind-") {
            self.rebound(name, text, record)
        } else if first == "v4" {
            self.main.iter().copied().filter(IpAddr::is_ipv4).collect()
        } else {
            self.main.clone()
        };
        all.into_iter()
            .filter(|address| match record {
                RecordType::A => address.is_ipv4(),
                RecordType::AAAA => address.is_ipv6(),
                _ => false,
            })
            .collect()
    }

    fn rebound(&self, name: &str, text: &str, record: RecordType) -> Vec<IpAddr> {
        let parts: Vec<u8> = text
            .split('-')
            .filter_map(|part| part.parse().ok())
            .collect();
        let Ok([a, b, c, d, e, f, g, h]) = <[u8; 8]>::try_from(parts) else {
            return Vec::new();
        };
        if record != RecordType::A {
            return Vec::new();
        }
        let Ok(mut asked) = self.asked.lock() else {
            return Vec::new();
        };
        let count = asked.entry(name.to_owned()).or_default();
        *count += 1;
        let address = if *count == 1 {
            Ipv4Addr::new(a, b, c, d)
        } else {
            Ipv4Addr::new(e, f, g, h)
        };
        vec![IpAddr::V4(address)]
    }
}
