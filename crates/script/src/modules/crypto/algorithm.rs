//! The digests that scripts can name, each plain or keyed as an HMAC.

use hmac::digest::Digest;
use hmac::{EagerHash, Hmac, KeyInit, Mac};

/// A digest that takes bytes piece by piece.
pub(super) trait Running {
    fn update(&mut self, bytes: &[u8]);
    /// The digest of what came so far; more may follow.
    fn result(&self) -> Vec<u8>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Md4,
    Md5,
    Sha1,
    Sha256,
    Sha384,
    Sha512,
    Sha512T224,
    Sha512T256,
    Ripemd160,
}

struct Plain<D>(D);

impl<D: Digest + Clone> Running for Plain<D> {
    fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn result(&self) -> Vec<u8> {
        self.0.clone().finalize().to_vec()
    }
}

struct Keyed<D: EagerHash>(Hmac<D>);

impl<D: EagerHash> Running for Keyed<D> {
    fn update(&mut self, bytes: &[u8]) {
        Mac::update(&mut self.0, bytes);
    }

    fn result(&self) -> Vec<u8> {
        self.0.clone().finalize().into_bytes().to_vec()
    }
}

impl Algorithm {
    pub(super) const ALL: &[Algorithm] = &[
        Algorithm::Md4,
        Algorithm::Md5,
        Algorithm::Sha1,
        Algorithm::Sha256,
        Algorithm::Sha384,
        Algorithm::Sha512,
        Algorithm::Sha512T224,
        Algorithm::Sha512T256,
        Algorithm::Ripemd160,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Algorithm::Md4 => "md4",
            Algorithm::Md5 => "md5",
            Algorithm::Sha1 => "sha1",
            Algorithm::Sha256 => "sha256",
            Algorithm::Sha384 => "sha384",
            Algorithm::Sha512 => "sha512",
            Algorithm::Sha512T224 => "sha512_224",
            Algorithm::Sha512T256 => "sha512_256",
            Algorithm::Ripemd160 => "ripemd160",
        }
    }

    pub(super) fn named(name: &str) -> Option<Algorithm> {
        Self::ALL.iter().copied().find(|algorithm| algorithm.name() == name)
    }

    pub(super) fn start(self) -> Box<dyn Running> {
        fn plain<D: Digest + Clone + 'static>() -> Box<dyn Running> {
            Box::new(Plain(D::new()))
        }
        match self {
            Algorithm::Md4 => plain::<md4::Md4>(),
            Algorithm::Md5 => plain::<md5::Md5>(),
            Algorithm::Sha1 => plain::<sha1::Sha1>(),
            Algorithm::Sha256 => plain::<sha2::Sha256>(),
            Algorithm::Sha384 => plain::<sha2::Sha384>(),
            Algorithm::Sha512 => plain::<sha2::Sha512>(),
            Algorithm::Sha512T224 => plain::<sha2::Sha512_224>(),
            Algorithm::Sha512T256 => plain::<sha2::Sha512_256>(),
            Algorithm::Ripemd160 => plain::<ripemd::Ripemd160>(),
        }
    }

    pub(super) fn start_keyed(self, secret: &[u8]) -> Box<dyn Running> {
        fn keyed<D: EagerHash + 'static>(secret: &[u8]) -> Box<dyn Running> {
            let mac = <Hmac<D> as KeyInit>::new_from_slice(secret);
            Box::new(Keyed(mac.expect("an HMAC takes secrets of every length")))
        }
        match self {
            Algorithm::Md4 => keyed::<md4::Md4>(secret),
            Algorithm::Md5 => keyed::<md5::Md5>(secret),
            Algorithm::Sha1 => keyed::<sha1::Sha1>(secret),
            Algorithm::Sha256 => keyed::<sha2::Sha256>(secret),
            Algorithm::Sha384 => keyed::<sha2::Sha384>(secret),
            Algorithm::Sha512 => keyed::<sha2::Sha512>(secret),
            Algorithm::Sha512T224 => keyed::<sha2::Sha512_224>(secret),
            Algorithm::Sha512T256 => keyed::<sha2::Sha512_256>(secret),
            Algorithm::Ripemd160 => keyed::<ripemd::Ripemd160>(secret),
        }
    }
}
