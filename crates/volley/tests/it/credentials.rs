//! Users and passwords in URLs reach the target, and nobody who reads what Volley says or writes.

use crate::common::{Room, Target, closed_port};

const PASSWORD: &str = "hunter%3A22";

fn with_user(url: &str) -> String {
    url.replace("http://", &format!("http://ann:{PASSWORD}@"))
}

/// Nothing that was printed or written has the password, in any form.
fn assert_hidden(room: &Room, said: &[&str], files: &[&str]) {
    let files = files.iter().map(|name| std::fs::read_to_string(room.path(name)).unwrap());
    let all: Vec<String> = said.iter().map(|text| (*text).to_owned()).chain(files).collect();
    for text in &all {
        for form in [PASSWORD, "hunter:22", "hunter", "YW5uOmh1bnRlcjoyMg=="] {
            assert!(!text.contains(form), "`{form}` in\n{text}");
        }
    }
}

#[test]
fn quick_mode_and_ping_send_the_user_of_the_url_and_do_not_show_it() {
    let (room, target) = (Room::new(), Target::start());
    let url = with_user(&format!("{}/echo", target.url()));
    let done = room.volley(["ping", &url]).expect(0);
    assert!(done.out.contains("authorization: Basic •••"), "{}", done.out);
    assert!(done.out.contains(&format!("── {}/echo", target.url())), "{}", done.out);
    // The target's echo shows what it got, as a body: that is the target's own word.
    assert!(done.out.contains("YW5uOmh1bnRlcjoyMg=="), "{}", done.out);
    let url = with_user(&target.url());
    let outputs = ["--summary", "s.json", "--out", "json=o.json", "--out", "junit=j.xml"];
    let done =
        room.volley([&[url.as_str(), "-d", "1s", "-c", "2"], &outputs[..]].concat()).expect(0);
    assert!(done.out.contains("http://•••@"), "{}", done.out);
    assert_hidden(&room, &[&done.out, &done.err], &["s.json", "o.json", "j.xml"]);
}

#[test]
fn a_password_in_a_plan_is_in_no_title_summary_sample_output_or_message() {
    let room = Room::new();
    let nobody = with_user(&format!("http://{}", closed_port()));
    let plan = format!(
        "target: {nobody}\ntags: {{ where: '{nobody}/x' }}\nworkflows:\n  - name: w\n    load: {{ iterations: 2 }}\n    steps: \
         [ {{ get: / }}, {{ get: '{nobody}/whole' }}, {{ set: {{ base: '{nobody}' }} }}, {{ get: '${{base}}:x/' }} ]\n"
    );
    room.write("p.yaml", &plan);
    let outputs = ["--summary", "s.json", "--out", "json=o.json", "--out", "csv=o.csv"];
    let done = room.volley([&["run", "p.yaml"], &outputs[..]].concat());
    assert_ne!(done.code, 0);
    assert_hidden(&room, &[&done.out, &done.err], &["s.json", "o.json", "o.csv"]);
    let done = room.volley(["run", "p.yaml", "--debug"]);
    assert!(done.out.contains("authorization: Basic •••"), "{}", done.out);
    assert_hidden(&room, &[&done.out, &done.err], &[]);
    let done = room.volley(["plan", "p.yaml", "--json"]).expect(0);
    assert_hidden(&room, &[&done.out, &done.err], &[]);
    // A mistake in the same line shows the line, and not the password in it.
    room.write("bad.yaml", &plan.replace("get: '", "gte: '").replace("http://ann", "ftp://ann"));
    let done = room.volley(["run", "bad.yaml"]).expect(104);
    assert!(done.err.contains("bad.yaml:"), "{}", done.err);
    assert_hidden(&room, &[&done.out, &done.err], &[]);
}
