//! Content codings: gzip, deflate, br and zstd. Answers are decoded only when somebody reads the
//! body; requests are encoded only for scripts.

use std::io::Read;

use stats::ErrorKind;

use super::Failure;

/// Decodes `body` in place. `limit` bounds what comes out: a small body may unfold into a huge one.
pub fn decode_body(encoding: &str, body: &mut Vec<u8>, limit: u64) -> Result<(), Failure> {
    // Codings are listed in the order in which they were applied.
    for coding in encoding.rsplit(',').map(str::trim) {
        let decoded = decode_one(coding, body, limit)?;
        *body = decoded;
    }
    Ok(())
}

fn decode_one(coding: &str, body: &[u8], limit: u64) -> Result<Vec<u8>, Failure> {
    let bad = |error: String| Failure::new(ErrorKind::Body, format!("bad {coding} body: {error}"));
    let mut out = Vec::new();
    let result = match coding {
        "gzip" | "x-gzip" => read(flate2::read::MultiGzDecoder::new(body), limit, &mut out),
        // RFC 9110 means zlib by `deflate`; some servers send the bare stream.
        "deflate" if body.first().is_some_and(|byte| byte & 0x0f == 8) => {
            read(flate2::read::ZlibDecoder::new(body), limit, &mut out)
        }
        "deflate" => read(flate2::read::DeflateDecoder::new(body), limit, &mut out),
        "br" => read(brotli_decompressor::Decompressor::new(body, 4096), limit, &mut out),
        "zstd" => {
            let decoder = ruzstd::decoding::StreamingDecoder::new(body);
            read(decoder.map_err(|error| bad(error.to_string()))?, limit, &mut out)
        }
        other => return Err(bad(format!("unknown content-encoding `{other}`"))),
    };
    result.map_err(|error| bad(error.to_string()))?;
    if out.len() as u64 > limit {
        let message = format!("decoded body is longer than {limit} bytes");
        return Err(Failure::new(ErrorKind::Body, message));
    }
    Ok(out)
}

fn read(decoder: impl Read, limit: u64, out: &mut Vec<u8>) -> std::io::Result<usize> {
    decoder.take(limit + 1).read_to_end(out)
}

/// Names that [`decode_body`] and [`encode_body`] know.
pub const CODINGS: [&str; 4] = ["gzip", "deflate", "zstd", "br"];

/// Applies one content coding; `None` if it is not known.
pub fn encode_body(coding: &str, body: &[u8]) -> Option<Vec<u8>> {
    use std::io::Write;
    let level = flate2::Compression::default();
    // Writing to a vector cannot fail.
    match coding {
        "gzip" => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(body).and_then(|()| encoder.finish()).ok()
        }
        "deflate" => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
            encoder.write_all(body).and_then(|()| encoder.finish()).ok()
        }
        "zstd" => {
            let level = ruzstd::encoding::CompressionLevel::Fastest;
            Some(ruzstd::encoding::compress_to_vec(body, level))
        }
        "br" => {
            let mut out = Vec::new();
            let mut encoder = brotli::CompressorWriter::new(&mut out, 4096, 6, 22);
            encoder.write_all(body).ok()?;
            drop(encoder);
            Some(out)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_bomb_is_stopped_at_the_limit() {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packed.write_all(&vec![0u8; 10 << 20]).unwrap();
        let mut body = packed.finish().unwrap();
        let failure = decode_body("gzip", &mut body, 1 << 20).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::Body);
    }

    #[test]
    fn both_meanings_of_deflate_are_understood() {
        let text = b"hello hello hello hello".to_vec();
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        zlib.write_all(&text).unwrap();
        let mut raw = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        raw.write_all(&text).unwrap();
        for mut body in [zlib.finish().unwrap(), raw.finish().unwrap()] {
            decode_body("deflate", &mut body, 1000).unwrap();
            assert_eq!(body, text);
        }
    }

    #[test]
    fn what_is_encoded_can_be_decoded() {
        for text in ["", "x", &"hello ".repeat(5000)] {
            for coding in CODINGS {
                let mut body = encode_body(coding, text.as_bytes()).unwrap();
                decode_body(coding, &mut body, 1 << 20).unwrap();
                assert_eq!(body, text.as_bytes(), "{coding}");
            }
        }
        assert_eq!(encode_body("lzw", b""), None);
    }

    #[test]
    fn garbage_is_an_error_of_the_body() {
        for coding in ["gzip", "br", "zstd", "deflate", "compress"] {
            let failure =
                decode_body(coding, &mut b"not packed at all".to_vec(), 1000).unwrap_err();
            assert_eq!(failure.kind, ErrorKind::Body, "{coding}");
        }
    }
}
