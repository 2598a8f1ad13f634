//! Outcomes as k6 v1.1.0 gives them for the same expressions.

use super::super::bytes::tests::outcome;
use super::*;

fn install(ctx: &Ctx<'_>) -> Result<()> {
    ctx.globals().set("m", exports(ctx)?)?;
    install_global(ctx)
}

fn check_table(table: &[(&str, &str)]) {
    for (expression, expected) in table {
        assert_eq!(outcome(install, expression), *expected, "{expression}");
    }
}

#[test]
fn every_digest_of_hello() {
    check_table(&[
        ("m.md4('hello', 'hex')", "866437cb7a794bce2b727acc0362ee27"),
        ("m.md5('hello', 'hex')", "5d41402abc4b2a76b9719d911017c592"),
        ("m.sha1('hello', 'hex')", "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d"),
        (
            "m.sha256('hello', 'hex')",
            "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
        ),
        (
            "m.sha384('hello', 'hex')",
            "59e1748777448c69de6b800d7a33bbfb9ff1b463e44354c3553bcdb9c666fa90\
             125a3c79f90397bdf5f6a13de828684f",
        ),
        (
            "m.sha512('hello', 'hex')",
            "9b71d224bd62f3785d96d46ad3ea3d73319bfbc2890caadae2dff72519673ca7\
             2323c3d99ba5c11d7c7acc6e14b8c5da0c4663475c2e5c3adef46f73bcdec043",
        ),
        (
            "m.sha512_224('hello', 'hex')",
            "fe8509ed1fb7dcefc27e6ac1a80eddbec4cb3d2c6fe565244374061c",
        ),
        (
            "m.sha512_256('hello', 'hex')",
            "e30d87cfa2a75db545eac4d61baf970366a8357c7f72fa95b52d0accb698f13a",
        ),
        ("m.default.ripemd160('hello', 'hex')", "108f07b8382412612c048d07d13f814118445acd"),
    ]);
}

#[test]
fn every_encoding_and_every_kind_of_input() {
    check_table(&[
        (
            "m.hmac('sha256', 'key', 'data', 'base64')",
            "UDH+PZicbRU3oBP6bnOdojRj/a7DtwE32Cjjas4iG9A=",
        ),
        (
            "m.hmac('sha256', 'key', 'data', 'base64url')",
            "UDH-PZicbRU3oBP6bnOdojRj_a7DtwE32Cjjas4iG9A=",
        ),
        (
            "m.hmac('sha256', 'key', 'data', 'base64rawurl')",
            "UDH-PZicbRU3oBP6bnOdojRj_a7DtwE32Cjjas4iG9A",
        ),
        ("m.md5('hello??', 'binary')", "[39,52,141,175,160,18,51,91,5,206,51,151,138,213,123,2]"),
        ("m.md5('é', 'hex')", "66ddcd97cfdeabb2f6fb8a999b4bc76f"),
        ("m.md5('\\ud800', 'hex')", "9b759040321a408a5c7768b4511287a6"),
        ("m.md5(new Uint8Array([0, 255, 128]), 'hex')", "4fd64cb80c3f86e1e9d0f559af8b370f"),
        ("m.md5(new Uint8Array([0, 255, 128]).buffer, 'hex')", "4fd64cb80c3f86e1e9d0f559af8b370f"),
        ("m.hexEncode(new Uint8Array([1, 255]))", "01ff"),
        ("m.hexEncode('hello')", "68656c6c6f"),
    ]);
}

#[test]
fn hmacs() {
    check_table(&[
        ("m.hmac('md4', 'key', 'data', 'hex')", "c2652d1b2872572984742fe9fcfa2a56"),
        ("m.hmac('md5', 'key', 'data', 'hex')", "9d5c73ef85594d34ec4438b7c97e51d8"),
        ("m.hmac('sha1', 'key', 'data', 'hex')", "104152c5bfdca07bc633eebd46199f0255c9f49d"),
        ("m.hmac('ripemd160', 'key', 'data', 'hex')", "ce21db67993ef780d55c61bde46dcf53ecf0e138"),
        (
            "m.hmac('sha512_224', 'key', 'data', 'hex')",
            "8b6657a9d03419b965477ba8149782c7d8e58ac4c79a9646e191c1d5",
        ),
        (
            "m.hmac('sha256', '', 'data', 'hex')",
            "e528c4d99e6177f5841f712a143b90843299a4aa181a06501422d9ca862bd2a5",
        ),
        (
            "m.hmac('sha256', 'x'.repeat(200), 'data', 'hex')",
            "f9b3e3414ea0742591e722011dace53534a6e95749599a861cb214af743cdd21",
        ),
        (
            "m.hmac('sha256', new Uint8Array([1, 2]).buffer, 'data', 'hex')",
            "3b8371da911cce326eb1694c2eb8fa57d061b7f5ed8952be91fe12dc9f5ee93d",
        ),
        (
            "(() => { const h = m.createHMAC('sha256', 'key'); h.update('x');
                return h.digest('hex') })()",
            "4fc3b7eaf34d7e594a6f51d9517ba543abf41067b27587ffd82ba3584e4d3cdd",
        ),
    ]);
}

#[test]
fn a_hasher_goes_on_after_a_digest() {
    check_table(&[
        (
            "(() => { const h = m.createHash('sha256'); h.update('x'); h.digest('hex');
                h.update('y'); return h.digest('hex') === m.sha256('xy', 'hex') })()",
            "true",
        ),
        (
            "(() => { const { digest } = m.createHash('md5'); return digest('hex') })()",
            "d41d8cd98f00b204e9800998ecf8427e",
        ),
        ("m.createHash('md5').update('x')", "undefined"),
        ("Object.keys(m.createHash('md5')).join()", "digest,update"),
    ]);
}

#[test]
fn bad_input_is_refused_with_a_remedy() {
    check_table(&[
        (
            "m.hmac('SHA256', 'key', 'data', 'hex')",
            "GoError: invalid algorithm: SHA256 (did you mean sha256?)",
        ),
        (
            "m.createHash('whirlpool')",
            "GoError: invalid algorithm: whirlpool (there are md4, md5, sha1, sha256, sha384, \
             sha512, sha512_224, sha512_256, ripemd160)",
        ),
        ("m.md5('x', 'HEX')", "GoError: invalid output encoding: HEX (did you mean hex?)"),
        (
            "m.md5('x')",
            "GoError: invalid output encoding:  (there are hex, base64, base64url, \
             base64rawurl, binary)",
        ),
        (
            "m.md5(null, 'hex')",
            "GoError: md5 failed: invalid type null, expected string, Uint8Array or ArrayBuffer",
        ),
        (
            "m.hmac('md5', 5, 'data', 'hex')",
            "GoError: invalid type number, expected string, Uint8Array or ArrayBuffer",
        ),
        ("m.randomBytes(0)", "GoError: invalid size"),
        ("m.randomBytes('x')", "GoError: invalid size"),
        ("m.randomBytes()", "GoError: invalid size"),
        ("m.randomBytes(1e30)", "GoError: invalid size"),
    ]);
}

#[test]
fn random_bytes_differ_and_have_the_length_asked_for() {
    check_table(&[
        ("m.randomBytes(33).byteLength", "33"),
        ("m.randomBytes('3').byteLength", "3"),
        ("m.randomBytes(1.9).byteLength", "1"),
        ("m.hexEncode(m.randomBytes(16)) === m.hexEncode(m.randomBytes(16))", "false"),
    ]);
}

#[test]
fn the_global_object_has_two_functions() {
    check_table(&[
        (
            "/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
            .test(crypto.randomUUID())",
            "true",
        ),
        ("crypto.randomUUID() === crypto.randomUUID()", "false"),
        (
            "(() => { const a = new Uint32Array(64), b = crypto.getRandomValues(a);
            return a === b && a.some(x => x > 65535) && a[63] !== a[62] })()",
            "true",
        ),
        (
            "(() => { const all = new Uint8Array(96);
            crypto.getRandomValues(all.subarray(32, 64));
            return all.slice(0, 32).every(x => !x) && all.slice(64).every(x => !x)
                && all.slice(32, 64).some(x => x) })()",
            "true",
        ),
        ("crypto.getRandomValues(new Uint8Array(0)).length", "0"),
        ("crypto.getRandomValues(new Uint8ClampedArray(40)).some(x => x)", "true"),
        ("crypto.getRandomValues(new Uint16Array(32769)).length", "32769"),
        ("Object.keys(crypto).join()", "getRandomValues,randomUUID"),
    ]);
    for (expression, start) in [
        ("crypto.getRandomValues(new Float32Array(1))", "GoError: TypeMismatchError"),
        ("crypto.getRandomValues([1])", "GoError: TypeMismatchError"),
        ("crypto.getRandomValues()", "GoError: TypeMismatchError"),
        ("crypto.getRandomValues(new Uint8Array(65537))", "GoError: QuotaExceededError"),
        (
            "crypto.subtle.digest('SHA-256', new Uint8Array(1))",
            "Error: the script calls `crypto.subtle.digest()`",
        ),
    ] {
        let refused = outcome(install, expression);
        assert!(refused.starts_with(start), "{expression}: {refused}");
    }
}

#[test]
fn the_names_are_the_exports() {
    assert_eq!(outcome(install, "Object.keys(m).sort().join()"), NAMES.join(","));
}
