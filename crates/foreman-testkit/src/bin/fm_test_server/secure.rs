//! TLS for every name: an authority made at start, leaves made as names are asked for.

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use tokio_rustls::TlsAcceptor;

/// Makes the authority, writes its certificate, and gives an acceptor that serves any name.
pub fn acceptor(authority: &Path) -> Result<TlsAcceptor> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, "foreman test authority");
    params.distinguished_name = name;
    let certificate = params.self_signed(&key)?;
    std::fs::write(authority, certificate.pem())
        .with_context(|| authority.display().to_string())?;
    let issuer = Issuer::new(params, key);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(EveryName {
            issuer,
            leaves: Mutex::default(),
        }));
    Ok(TlsAcceptor::from(Arc::new(config)))
}

struct EveryName {
    issuer: Issuer<'static, KeyPair>,
    leaves: Mutex<HashMap<String, Arc<CertifiedKey>>>,
}

impl std::fmt::Debug for EveryName {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("EveryName")
    }
}

impl ResolvesServerCert for EveryName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().unwrap_or("unnamed.example").to_owned();
        let mut leaves = self.leaves.lock().ok()?;
        if let Some(leaf) = leaves.get(&name) {
            return Some(leaf.clone());
        }
        let leaf = Arc::new(self.make(&name).ok()?);
        leaves.insert(name, leaf.clone());
        Some(leaf)
    }
}

impl EveryName {
    fn make(&self, name: &str) -> Result<CertifiedKey> {
        let key = KeyPair::generate()?;
        let params = CertificateParams::new(vec![name.to_owned()])?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let key = rustls::crypto::ring::sign::any_supported_type(&der)?;
        Ok(CertifiedKey::new(vec![certificate.der().clone()], key))
    }
}
