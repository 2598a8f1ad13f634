//! Bytes of a file into text, and what the bytes are if they are none.

/// The text of a file; otherwise what is wrong with it and what to do.
pub fn read(bytes: Vec<u8>) -> Result<String, (String, String)> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        what_is_it(error.as_bytes(), at)
    })
}

fn what_is_it(bytes: &[u8], at: usize) -> (String, String) {
    let message = |what: &str| format!("not UTF-8 text: {what}");
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return (
            message(
                "it begins with the mark of UTF-16 (PowerShell's `>`, Notepad's `Unicode`, Excel's \
                 `Unicode text`)",
            ),
            "save it as UTF-8, or convert it: `iconv -f UTF-16 -t UTF-8 OLD > NEW`".into(),
        );
    }
    if bytes.starts_with(b"PK\x03\x04") {
        let help = "save the sheet as `CSV UTF-8`, or unpack the archive";
        return (message("it is a zip archive, as Excel's .xlsx is"), help.into());
    }
    if bytes.starts_with(&[0x1f, 0x8b]) {
        return (message("it is compressed with gzip"), "unpack it: `gunzip FILE`".into());
    }
    let line = bytes[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
    (
        message(&format!("the byte 0x{:02x} in line {line} is of another encoding", bytes[at])),
        "save it as UTF-8, or convert it: `iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW`".into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_text_is_called_by_its_name() {
        let message = |bytes: &[u8]| read(bytes.to_vec()).unwrap_err();
        assert!(message(b"\xff\xfen\0a\0").0.contains("UTF-16"));
        assert!(message(b"\xff\xfen\0a\0").1.contains("iconv -f UTF-16"));
        assert!(message(b"PK\x03\x04\xff").0.contains("zip"));
        assert!(message(b"name\nRen\xe9\n").0.contains("0xe9 in line 2"), "Latin-1");
        assert_eq!(read(b"name\n".to_vec()).unwrap(), "name\n");
    }
}
