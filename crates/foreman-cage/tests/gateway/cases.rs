//! The tests, by what they are about.

pub mod bulk;
pub mod figures;
pub mod names;
pub mod proxies;
pub mod tcp;
pub mod udp;
pub mod vetting;

use crate::cage::{Ask, Cage};
use crate::servers::SERVER;
use crate::table::{Rule, Table};
use foreman_cage::gateway::{self, Config, Gateway, ProxyConfig};
use hickory_proto::op::{Message, Query};
use hickory_proto::rr::{Name, RData, RecordType};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

pub type Body = fn(Cage) -> Pin<Box<dyn Future<Output = ()>>>;

/// A test, and the kind of gate that it needs.
#[derive(Clone, Copy)]
pub enum Case {
    /// The best that this kernel has.
    Queue(Body),
    /// The log.
    Log(Body),
}

macro_rules! cases {
    ($($module:ident::$name:ident,)* ; $($log_module:ident::$log_name:ident,)*) => {
        pub const ALL: &[(&str, Case)] = &[
            $((
                concat!(stringify!($module), "::", stringify!($name)),
                Case::Queue(|cage| Box::pin($module::$name(cage))),
            ),)*
            $((
                concat!(stringify!($log_module), "::", stringify!($log_name), "_with_the_log"),
                Case::Log(|cage| Box::pin($log_module::$log_name(cage))),
            ),)*
        ];
    };
}

cases! {
    tcp::a_held_connect_succeeds_once_it_is_allowed,
    tcp::a_repeated_first_segment_is_no_new_question,
    tcp::a_denied_connect_is_refused,
    tcp::a_floor_address_is_refused_at_once,
    tcp::a_refusal_of_the_other_side_is_mirrored,
    tcp::a_name_without_an_address_is_no_route_to_host,
    tcp::ipv6_is_held_and_let_go,
    tcp::a_mapped_address_is_its_own,
    tcp::a_caller_that_gave_up_is_noticed,
    tcp::a_cut_resets_both_sides_and_says_so,
    tcp::bytes_are_counted,
    tcp::half_a_close_leaves_the_other_half_open,
    tcp::a_reset_of_the_other_side_reaches_the_caller,
    tcp::data_on_the_first_segment_does_not_pass,
    tcp::our_own_sockets_are_closed_to_the_cage,
    tcp::servers_inside_are_reached_inside,
    tcp::what_is_held_stays_held_when_the_gateway_ends,
    tcp::the_holder_is_named,
    udp::a_held_datagram_is_answered_once_it_is_allowed,
    udp::a_denied_flow_is_refused,
    udp::http_3_and_dns_over_quic_are_refused_at_once,
    udp::each_destination_of_one_socket_is_judged,
    udp::ipv6_flows_are_relayed,
    udp::a_cut_flow_asks_again,
    udp::large_datagrams_pass_whole,
    udp::a_refusal_of_the_other_side_is_mirrored,
    udp::a_caller_that_gave_up_is_noticed,
    names::a_name_has_one_address_and_is_told_once,
    names::other_types_are_empty,
    names::any_resolver_address_answers,
    names::queries_over_tcp_are_answered,
    names::names_of_the_local_network_do_not_exist,
    names::nonsense_does_not_stop_the_resolver,
    vetting::nothing_is_resolved_before_it_is_allowed,
    vetting::a_private_address_is_asked_about,
    vetting::a_rule_may_cover_private_addresses,
    vetting::forbidden_addresses_behind_names_are_refused,
    vetting::the_harmless_address_of_a_name_is_dialled,
    proxies::connect_goes_through_with_credentials,
    proxies::socks_goes_through_with_credentials,
    proxies::what_a_proxy_answers_is_mirrored,
    proxies::exceptions_are_dialled_directly,
    proxies::datagrams_and_floor_addresses_do_not_go_through,
    bulk::sixty_four_mebibytes_arrive_whole_each_way,
    bulk::a_thousand_connects_go_on_at_once,
    bulk::ten_thousand_connects_are_held_and_refused,
    bulk::a_flood_of_flows_is_bounded,
    bulk::a_flood_to_forbidden_places_is_told_as_numbers,
    ;
    tcp::a_held_connect_succeeds_once_it_is_allowed,
    tcp::a_repeated_first_segment_is_no_new_question,
    tcp::a_denied_connect_is_refused,
    tcp::a_floor_address_is_refused_at_once,
    tcp::a_refusal_of_the_other_side_is_mirrored,
    tcp::a_name_without_an_address_is_no_route_to_host,
    tcp::ipv6_is_held_and_let_go,
    tcp::a_caller_that_gave_up_is_noticed,
    tcp::data_on_the_first_segment_does_not_pass,
    bulk::a_thousand_connects_go_on_at_once,
}

/// A cage with a gateway at work.
pub struct Run {
    pub cage: Cage,
    pub table: Arc<Table>,
    gateway: Gateway,
    cancel: CancellationToken,
}

impl Run {
    pub fn start(cage: Cage, rules: &[(&str, Rule)]) -> Self {
        Self::with(cage, Table::with(rules), ProxyConfig::default())
    }

    pub fn with(cage: Cage, table: Table, proxy: ProxyConfig) -> Self {
        let table = Arc::new(table);
        let cancel = CancellationToken::new();
        let config = Config {
            sockets: cage.take_sockets(),
            init_pid: cage.init_pid(),
            proxy,
            forward: None,
        };
        let gateway = gateway::start(config, table.clone(), cancel.clone());
        assert!(gateway.failure().is_none());
        Self {
            cage,
            table,
            gateway,
            cancel,
        }
    }

    pub async fn stop(self) -> (Cage, Arc<Table>) {
        self.cancel.cancel();
        deadline(self.gateway.join()).await;
        (self.cage, self.table)
    }

    /// The cage's address of a name.
    pub async fn lookup(&self, name: &str) -> IpAddr {
        let resolver = SocketAddr::new(gateway::resolver_address().into(), 53);
        let reply = self.query(resolver, name, RecordType::A).await;
        address(&reply).unwrap_or_else(|| panic!("{reply}")).into()
    }

    pub async fn query(&self, resolver: SocketAddr, name: &str, kind: RecordType) -> Message {
        let socket = self.cage.datagrams(resolver).await;
        let query = query(name, kind);
        socket.send(&query.to_vec().unwrap()).await.unwrap();
        let mut buffer = vec![0; 4096];
        let length = deadline(socket.recv(&mut buffer)).await.unwrap();
        let reply = Message::from_vec(&buffer[..length]).unwrap();
        assert_eq!(reply.id, query.id);
        reply
    }

    pub async fn connect(&self, name: &str, port: u16) -> std::io::Result<tokio::net::TcpStream> {
        let address = self.lookup(name).await;
        deadline(self.cage.connect(SocketAddr::new(address, port))).await
    }

    /// Starts to connect; what becomes of it is awaited later.
    pub fn connecting(
        &self,
        to: SocketAddr,
    ) -> tokio::task::JoinHandle<std::io::Result<tokio::net::TcpStream>> {
        let ask = if to.is_ipv4() { Ask::Tcp4 } else { Ask::Tcp6 };
        let socket = std::net::TcpStream::from(self.cage.socket(ask));
        tokio::spawn(tokio::net::TcpSocket::from_std_stream(socket).connect(to))
    }
}

pub fn server(port: u16) -> SocketAddr {
    SocketAddr::new(SERVER.parse().unwrap(), port)
}

pub fn query(name: &str, kind: RecordType) -> Message {
    let mut message = Message::query();
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
    message
}

pub fn address(reply: &Message) -> Option<Ipv4Addr> {
    reply.answers.iter().find_map(|record| match &record.data {
        RData::A(address) => Some(address.0),
        _ => None,
    })
}

pub async fn deadline<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future)
        .await
        .expect("in time")
}

pub fn error_of<T>(result: std::io::Result<T>) -> i32 {
    match result {
        Ok(_) => panic!("it was let through"),
        Err(error) => error.raw_os_error().unwrap(),
    }
}

pub async fn echoes(stream: &mut tokio::net::TcpStream, text: &[u8]) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    deadline(stream.write_all(text)).await.unwrap();
    let mut back = vec![0; text.len()];
    deadline(stream.read_exact(&mut back)).await.unwrap();
    assert_eq!(back, text);
}
