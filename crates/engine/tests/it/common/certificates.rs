//! A certificate authority for one test.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};

pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: PathBuf,
    /// The authority's own certificate, in PEM.
    pub file: PathBuf,
}

/// A certificate and its key, as files in PEM.
pub struct Pair {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Authority {
    pub fn new(folder: &Path, name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let file = folder.join(format!("{name}.pem"));
        std::fs::write(&file, certificate.pem()).unwrap();
        Authority { issuer: Issuer::new(params, key), folder: folder.to_owned(), file }
    }

    /// A certificate for these names; the first one also names the files.
    pub fn issue(&self, names: &[&str]) -> Pair {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(names.clone()).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, names[0].as_str());
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let file = |ending: &str| self.folder.join(format!("{}.{ending}", names[0]));
        let pair = Pair { certificate: file("crt"), key: file("key") };
        std::fs::write(&pair.certificate, certificate.pem()).unwrap();
        std::fs::write(&pair.key, key.serialize_pem()).unwrap();
        pair
    }
}

/// A certificate that signed itself and says that it is an authority, as `openssl req -x509` makes
/// it; good until that year.
pub fn self_signed(folder: &Path, name: &str, until_year: i32) -> Pair {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(until_year, 1, 1);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let file = |ending: &str| folder.join(format!("{name}-{until_year}.{ending}"));
    let pair = Pair { certificate: file("crt"), key: file("key") };
    std::fs::write(&pair.certificate, certificate.pem()).unwrap();
    std::fs::write(&pair.key, key.serialize_pem()).unwrap();
    pair
}
