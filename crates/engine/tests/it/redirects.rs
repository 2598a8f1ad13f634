//! Redirects and cookies: what is followed, what is sent along, and to whom.

use crate::common::recording::{Recording, Seen, moved, ok, respond};
use crate::common::{Runner, describe, plan, plan_with, target, url};
use stats::ErrorKind;

/// Redirects `/STATUS...` to `/next`, everything else is answered.
fn redirecting() -> Recording {
    Recording::start(|request: &Seen| match request.path[1..].parse() {
        Ok(status) => moved(status, "/next"),
        Err(_) => ok("arrived"),
    })
}

#[test]
fn each_status_keeps_or_changes_the_method_as_it_should() {
    for (status, method, next, with_body) in [
        (301, "post", "GET", false),
        (302, "post", "GET", false),
        (303, "post", "GET", false),
        (307, "post", "POST", true),
        (308, "post", "POST", true),
        (302, "put", "PUT", true),
        (303, "put", "GET", false),
        (303, "head", "HEAD", false),
        (307, "get", "GET", false),
    ] {
        let server = redirecting();
        let body = if ["get", "head"].contains(&method) {
            ""
        } else {
            ", body: data, headers: { content-type: text/x }"
        };
        let steps = format!("{{ {method}: /{status}{body} }}");
        Runner::to(server.url()).run(&plan("iterations: 1", &steps)).assert_clean();
        let seen = server.seen();
        let last = &seen[1];
        assert_eq!(
            (last.method.as_str(), last.path.as_str()),
            (next, "/next"),
            "{status} {method}"
        );
        let wanted = if with_body { "data" } else { "" };
        assert_eq!(last.text(), wanted, "{status} {method}");
        assert_eq!(last.header("content-type").is_some(), with_body, "{status} {method}");
        assert_eq!(last.header("content-length").is_some(), with_body, "{status} {method}");
    }
}

#[test]
fn a_request_that_has_become_a_get_stays_one() {
    let server = Recording::start(|request: &Seen| match request.path.as_str() {
        "/start" => moved(303, "/middle"),
        "/middle" => moved(307, "/end"),
        _ => ok("arrived"),
    });
    let steps = "{ post: /start, json: { secret: yes } }";
    Runner::to(server.url()).run(&plan("iterations: 1", steps)).assert_clean();
    let methods: Vec<_> =
        server.seen().iter().map(|one| (one.method.clone(), one.text())).collect();
    let get = ("GET".to_owned(), String::new());
    assert_eq!(methods[1..], [get.clone(), get]);
}

#[test]
fn redirects_are_followed_up_to_the_limit_that_was_set() {
    for (setting, length, good) in
        [("redirects: 3", 3, true), ("redirects: 3", 4, false), ("", 10, true), ("", 11, false)]
    {
        let target = target();
        let steps = format!("{{ get: /redirect/{length} }}");
        let run = Runner::to(url(&target)).run(&plan_with(setting, "iterations: 2", &steps));
        run.assert_seen_by(&target);
        let errors = run.errors(ErrorKind::Redirect);
        assert_eq!(errors, if good { 0 } else { 2 }, "{setting} {length}");
    }
    // Not followed is not failed: the redirect is the answer.
    let target = target();
    let steps = "{ get: /redirect/5, check: [ { status: 302 }, { header: { name: location, equals: /redirect/4 } } ] }";
    let run = Runner::to(url(&target)).run(&plan_with("redirects: false", "iterations: 2", steps));
    run.assert_clean().assert_checks();
    assert_eq!(run.total().requests, 2);
}

#[test]
fn the_latency_of_a_step_runs_over_all_its_hops() {
    let server = Recording::start(|request: &Seen| {
        std::thread::sleep(std::time::Duration::from_millis(150));
        if request.path == "/a" { moved(302, "/b") } else { ok("") }
    });
    let steps = "{ name: s, get: /a, check: [ { latency: '>= 300ms' } ] }";
    let run = Runner::to(server.url()).run(&plan("iterations: 1", steps));
    run.assert_checks();
    assert!(run.step("s").duration.max_ms() < 290.0, "each hop is measured by itself");
}

#[test]
fn credentials_never_reach_another_origin_however_many_hops_later() {
    let other = Recording::start(|request: &Seen| match request.path.as_str() {
        "/first" => moved(302, "/second"),
        _ => ok("arrived"),
    });
    let to = format!("{}/first", other.url());
    let server = Recording::start(move |_| moved(302, &to));
    let steps = "{ get: /, auth: { bearer: secret }, headers: { cookie: k=v, x-kept: y } }";
    Runner::to(server.url()).run(&plan("iterations: 1", steps)).assert_clean();
    assert_eq!(server.seen()[0].header("authorization"), Some("Bearer secret"));
    let seen = other.seen();
    assert_eq!(seen.len(), 2);
    for request in seen {
        assert_eq!(request.header("authorization"), None, "{request:?}");
        assert_eq!(request.header("cookie"), None, "{request:?}");
        assert_eq!(request.header("x-kept"), Some("y"));
        assert_eq!(request.header("host"), Some(other.addr.to_string().as_str()));
    }
}

#[test]
fn credentials_stay_on_the_same_origin() {
    let server = redirecting();
    let steps = "{ get: /302, auth: { bearer: secret } }";
    Runner::to(server.url()).run(&plan("iterations: 1", steps)).assert_clean();
    assert_eq!(server.seen()[1].header("authorization"), Some("Bearer secret"));
}

#[test]
fn a_redirect_that_leads_nowhere_is_an_error() {
    for to in ["ftp://127.0.0.1/x", "http://", "http://[bad"] {
        let server = Recording::start(move |_| moved(302, to));
        let run = Runner::to(server.url()).run(&plan("iterations: 2", "{ get: / }"));
        assert_eq!(run.errors(ErrorKind::Redirect), 2, "{to}: {}", describe(&run.total()));
        assert_eq!(run.total().sent, 2, "{to}");
    }
}

/// The `cookie` header of each request to `/see`, by user.
fn cookies_seen(cookies: &str, load: &str, steps: &str) -> Vec<(String, Option<String>)> {
    let server = Recording::start(|request: &Seen| match request.path.strip_prefix("/set/") {
        Some(value) => respond("200 OK", &format!("set-cookie: id={value}; Path=/\r\n"), b""),
        None => ok(""),
    });
    let plan = plan_with(&format!("cookies: {cookies}"), load, steps);
    Runner::to(server.url()).cores(2).run(&plan).assert_clean();
    let seen = server.seen().into_iter().filter(|one| one.path.starts_with("/see"));
    seen.map(|one| {
        let cookie = one.header("cookie").map(str::to_owned);
        (one.path.rsplit('/').next().unwrap().to_owned(), cookie)
    })
    .collect()
}

const SET_AND_SEE: &str =
    "{ get: '/see/${vu.id}' }, { get: '/set/${vu.id}' }, { get: '/see/${vu.id}' }";

#[test]
fn cookies_belong_to_one_user_and_one_iteration() {
    let load = "executor: per-vu-iterations, vus: 4, iterations: 3";
    let seen = cookies_seen("true", load, SET_AND_SEE);
    assert_eq!(seen.len(), 24);
    let with: Vec<_> = seen.iter().filter(|(_, cookie)| cookie.is_some()).collect();
    assert_eq!(with.len(), 12, "each iteration begins without, and ends with one");
    for (user, cookie) in with {
        assert_eq!(cookie.as_deref(), Some(&*format!("id={user}")), "its own");
    }
}

#[test]
fn cookies_can_be_kept_for_life_or_turned_off() {
    let load = "executor: per-vu-iterations, vus: 4, iterations: 3";
    let kept = cookies_seen("keep", load, SET_AND_SEE);
    let without = kept.iter().filter(|(_, cookie)| cookie.is_none()).count();
    assert_eq!(without, 4, "only the very first request of each user");
    assert!(kept.iter().all(|(user, cookie)| {
        cookie.is_none() || cookie.as_deref() == Some(&*format!("id={user}"))
    }));
    let off = cookies_seen("false", load, SET_AND_SEE);
    assert!(off.iter().all(|(_, cookie)| cookie.is_none()));
}

#[test]
fn cookies_of_a_redirect_are_sent_to_where_it_leads() {
    let target = target();
    let steps = "{ get: '/cookies/set?a=1&b=2' }, { get: /cookies, check: [ { json: $.cookies.a, equals: 1 }, { json: $.cookies.b, equals: 2 } ] }";
    for version in ["1.1", "2"] {
        let plan = plan_with(&format!("version: {version}"), "iterations: 2", steps);
        Runner::to(url(&target)).run(&plan).assert_clean().assert_checks();
    }
    let server = Recording::start(|request: &Seen| match request.path.as_str() {
        "/login" => respond("302 Found", "set-cookie: s=1; Path=/\r\nlocation: /home\r\n", b""),
        _ => ok(""),
    });
    Runner::to(server.url()).run(&plan("iterations: 1", "{ get: /login }")).assert_clean();
    assert_eq!(server.seen()[1].header("cookie"), Some("s=1"));
}

#[test]
fn a_user_in_the_url_is_sent_as_basic_auth_and_never_to_another_origin() {
    let other = Recording::start(|_| ok("arrived"));
    let away = format!("{}/x", other.url());
    let server = Recording::start(move |request: &Seen| match request.path.as_str() {
        "/away" => moved(302, &away),
        "/302" => moved(302, "/next"),
        _ => ok("arrived"),
    });
    let url = server.url().replace("http://", "http://us%20er:pa%3Ass@");
    // A URL that is fixed, one with a reference in its path, and one that is known only when it is
    // rendered; each also by way of a redirect.
    let steps = "{ get: /fixed }, { get: '/ref/${vu.id}' }, { get: /302 }, { get: /away }, \
         { set: { base: 'URL' } }, { get: '${base}/late' }, { get: '${base}/302' }, { get: '${base}/away' }"
        .replace("URL", &url);
    let run = Runner::to(url).run(&plan("iterations: 1", &steps));
    run.assert_clean();
    for request in server.seen() {
        let authorization = request.header("authorization");
        assert_eq!(authorization, Some("Basic dXMgZXI6cGE6c3M="), "{}", request.path);
    }
    assert_eq!(server.seen().len(), 9, "{:?}", server.paths());
    assert_eq!(other.seen().len(), 2);
    assert!(other.seen().iter().all(|request| request.header("authorization").is_none()));
}

#[test]
fn a_header_of_the_plan_wins_over_the_user_in_the_url() {
    let server = Recording::start(|_| ok("arrived"));
    let url = server.url().replace("http://", "http://u:p@");
    let steps = "{ get: /a, auth: { bearer: t } }, { set: { base: 'URL' } }, \
         { get: '${base}/b', headers: { authorization: own } }"
        .replace("URL", &url);
    Runner::to(url).run(&plan("iterations: 1", &steps)).assert_clean();
    let sent: Vec<_> =
        server.seen().iter().map(|one| one.header("authorization").map(str::to_owned)).collect();
    assert_eq!(sent, [Some("Bearer t".to_owned()), Some("own".to_owned())]);
}
