//! Whoever lacks the token, names another host or comes from another origin gets nothing.

use web::{Listen, Server, Wish};

use crate::client::{any_port, get, post, raw, seconds, serve};

const ROUTES: [&str; 12] = [
    "/",
    "/job/12ab",
    "/assets/app.js",
    "/assets/app.css",
    "/licences",
    "/favicon.ico",
    "/api/fleet",
    "/api/run/run/events",
    "/api/run/run/record",
    "/api/run/run/report",
    "/nothing",
    "/x/../api",
];

#[test]
fn a_wrong_host_is_refused_on_every_route_with_and_without_the_cookie() {
    let served = serve();
    served.show(seconds(2));
    for route in ROUTES {
        for host in ["evil.example", "127.0.0.1.evil.example", "evil.example:7600", ""] {
            for cookie in ["", &served.cookie] {
                let headers = format!("Host: {host}\r\nCookie: {cookie}\r\n");
                let answer = get(served.address, route, &headers);
                assert!([421, 400].contains(&answer.status), "{route} {host}: {answer:?}");
                assert!(!answer.body.contains("script"), "{route} {host}: {answer:?}");
            }
        }
        let answer = get(served.address, route, "Host: evil.example\r\n");
        assert_eq!(answer.status, 421, "{route}");
    }
    for route in ["/login", "/api/run/run/steer"] {
        let headers = format!("Host: evil.example\r\nCookie: {}\r\n", served.cookie);
        assert_eq!(post(served.address, route, &headers, "{}").status, 421);
    }
    let both = format!("GET / HTTP/1.1\r\nHost: {0}\r\nHost: evil\r\n\r\n", served.address);
    assert_ne!(
        raw(served.address, &both.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")).status,
        200
    );
}

#[test]
fn without_the_token_there_is_the_empty_page_and_nothing_else() {
    let served = serve();
    served.show(seconds(2));
    for route in ROUTES {
        let answer = get(served.address, route, "");
        let open = ["/", "/assets/app.js", "/assets/app.css", "/licences"].contains(&route);
        let expected = match route {
            "/favicon.ico" => 204,
            "/job/12ab" => 404,
            _ if open => 200,
            _ => 401,
        };
        assert_eq!(answer.status, expected, "{route}");
        assert!(!answer.body.contains("quickstart"), "the plan's name is not told: {route}");
    }
    assert_eq!(served.get("/api/run/run/summary").status, 200);
    assert_eq!(served.get("/api/run/other/summary").status, 404);
    assert_eq!(served.get("/api/run/run/anything").status, 404);
    let wrong = get(served.address, "/api/run/run/summary", "Cookie: volley-1=0\r\n");
    assert_eq!(wrong.status, 401);
}

#[test]
fn the_token_is_128_bits_in_the_fragment_and_guessing_it_is_stopped() {
    let served = serve();
    let link = served.server.link();
    let (page, token) = link.split_once("/#token=").unwrap();
    assert_eq!(page, format!("http://{}", served.address));
    assert_eq!(token.len(), 32);
    let guess = |token: &str| {
        post(served.address, "/login", "", &format!("{{\"token\":\"{token}\"}}")).status
    };
    let answers: Vec<u16> = (0..25).map(|_| guess("0000")).collect();
    assert!(answers[..20].iter().all(|status| *status == 401), "{answers:?}");
    assert!(answers[20..].iter().all(|status| *status == 429), "{answers:?}");
    assert_eq!(served.get("/api/run/run/record").status, 404, "who is inside stays inside");
}

#[test]
fn every_answer_carries_the_policy_and_none_allows_another_origin() {
    let served = serve();
    served.show(seconds(2));
    for route in ROUTES.iter().filter(|route| !route.ends_with("events")) {
        for headers in
            [String::new(), format!("Cookie: {}\r\n", served.cookie), "Host: evil\r\n".into()]
        {
            let answer = get(served.address, route, &headers);
            let policy = answer.header("content-security-policy").unwrap_or_default();
            assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{answer:?}");
            for (name, value) in [
                ("x-content-type-options", "nosniff"),
                ("referrer-policy", "no-referrer"),
                ("cache-control", "no-store"),
                ("cross-origin-opener-policy", "same-origin"),
                ("cross-origin-resource-policy", "same-origin"),
            ] {
                assert_eq!(answer.header(name), Some(value), "{route}");
            }
            assert!(!answer.head.to_lowercase().contains("access-control"), "{answer:?}");
        }
    }
}

#[test]
fn a_change_is_a_post_of_the_page_itself() {
    let served = serve();
    let steer = |headers: &str, body: &str| {
        let headers = format!("Cookie: {}\r\n{headers}", served.cookie);
        post(served.address, "/api/run/run/steer", &headers, body)
    };
    for elsewhere in ["null", "http://127.0.0.1:1", "http://localhost", "https://evil.example"] {
        let answer = steer(&format!("Origin: {elsewhere}\r\n"), "{\"do\":\"stop\"}");
        assert_eq!(answer.status, 403, "{elsewhere}");
    }
    assert_eq!(steer("Sec-Fetch-Site: same-site\r\n", "{\"do\":\"stop\"}").status, 403);
    assert_eq!(steer("Content-Type: text/plain\r\n", "{\"do\":\"stop\"}").status, 415);
    assert_eq!(served.get("/api/run/run/steer?do=stop").status, 405);
    for odd in [
        "",
        "{}",
        "[]",
        "{\"do\":\"scale\"}",
        "{\"do\":\"scale\",\"by\":-1}",
        "{\"do\":\"scale\",\"by\":1e9}",
    ] {
        assert_eq!(steer("", odd).status, 400, "{odd}");
    }
    assert_eq!(steer("", &"x".repeat(10_000)).status, 413);
    assert!(served.asked.lock().unwrap().is_empty());
    assert_eq!(steer("", "{\"do\":\"pause\"}").body, "{\"done\":\"done\"}");
    let refused = steer("", "{\"do\":\"resume\"}");
    assert_eq!((refused.status, &*refused.body), (409, "{\"problem\":\"not paused\"}"));
    assert_eq!(steer("", "{\"do\":\"scale\",\"by\":0.5}").status, 200);
    let asked = served.asked.lock().unwrap().clone();
    assert_eq!(asked, [Wish::Pause, Wish::Resume, Wish::Scale(0.5)]);
}

#[test]
fn names_that_are_markup_reach_the_page_as_text() {
    let served = serve();
    let hostile = "</script><img src=x onerror=alert(1)>";
    let mut progress = seconds(2);
    progress.result.plan = hostile.to_owned();
    progress.result.timeline[0].event = hostile.to_owned();
    served.show(progress);
    let (events, _) = served.events(None).step();
    let parts = &events[0].data["parts"];
    let header = parts["header"].as_str().unwrap();
    assert!(header.contains("&lt;/script&gt;&lt;img src=x"), "{header}");
    for (name, html) in parts.as_object().unwrap() {
        assert!(!html.as_str().unwrap().contains("<img"), "{name}");
    }
    let report = served.get("/api/run/run/report");
    assert!(!report.body.contains("<img"));
    assert_eq!(report.header("content-disposition"), Some("attachment; filename=\"run.html\""));
}

#[test]
fn a_port_that_was_asked_for_is_taken_or_not_and_the_usual_one_moves_on() {
    let site = || serve().live;
    let first = Server::start(&any_port(), site()).unwrap();
    let options = web::Options { listen: Listen::At(first.address()), ..any_port() };
    let error = Server::start(&options, site()).err().unwrap().to_string();
    assert!(error.contains("is in use"), "{error}");
    let usual = web::Options { listen: Listen::Usual, ..any_port() };
    let (one, two) =
        (Server::start(&usual, site()).unwrap(), Server::start(&usual, site()).unwrap());
    assert!(one.address().port() >= web::PORT && two.address().port() > one.address().port());
    assert!(two.has_moved());
    let everywhere = Listen::At("0.0.0.0:0".parse().unwrap());
    let error = Server::start(&web::Options { listen: everywhere, ..any_port() }, site());
    assert!(error.err().unwrap().to_string().contains("ssh -L"));
}
