//! The page that `--report` writes: it is well-formed, needs nothing else, and shows texts as they are.

use crate::accounts::Accounted;
use crate::job::WIKI_VOTE;

/// Elements that have no end.
const EMPTY: [&str; 1] = ["!DOCTYPE"];

/// Looks whether every element that begins ends where it may, and returns their names and the texts between.
fn parse(page: &str) -> (Vec<String>, String) {
    let (mut open, mut names, mut texts) = (Vec::new(), Vec::new(), String::new());
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        let (text, tag) = rest.split_at(at);
        assert!(!text.contains('>'), "a bare > in {text:?}");
        texts += text;
        let end = end_of_tag(tag);
        let (tag, behind) = (&tag[1..end], &tag[end + 1..]);
        rest = behind;
        let name: String = tag
            .chars()
            .take_while(|character| !character.is_whitespace() && *character != '>')
            .collect();
        if let Some(name) = name.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "what ends is what began last");
        } else if !tag.ends_with('/') && !EMPTY.contains(&name.as_str()) {
            open.push(name.clone());
            names.push(name.clone());
        } else {
            names.push(name.trim_end_matches('/').to_owned());
        }
        if name == "style" {
            let end = rest.find("</style>").unwrap();
            assert!(!rest[..end].contains('<'), "a style has no elements");
            rest = &rest[end..];
        }
    }
    assert!(open.is_empty(), "{open:?} do not end");
    (names, texts + rest)
}

/// Where a tag ends: what is quoted does not count.
fn end_of_tag(tag: &str) -> usize {
    let mut is_quoted = false;
    for (at, character) in tag.char_indices().skip(1) {
        match character {
            '"' => is_quoted = !is_quoted,
            '<' => panic!("a < in a tag: {:?}", &tag[..at + 1]),
            '>' if !is_quoted => return at,
            _ => {}
        }
    }
    panic!("a tag without an end: {tag:?}");
}

/// It has no script, and asks for nothing.
fn assert_is_self_contained(page: &str, names: &[String]) {
    for name in ["script", "link", "img", "iframe", "object", "embed", "foreignObject", "use", "a"]
    {
        assert!(!names.iter().any(|found| found == name), "{name}");
    }
    for text in ["http:", "https:", "src=", "@import", "javascript:", "onload"] {
        assert!(!page.contains(text), "{text}");
    }
    // Only what is in the page itself is referred to.
    assert_eq!(page.matches("url(").count(), page.matches("url(#").count());
    assert!(page.contains("prefers-color-scheme: dark"));
}

#[test]
fn a_page_is_well_formed_and_needs_nothing_else() {
    let job = Accounted::new();
    let (account, _) =
        job.done(&["pagerank", "--input", WIKI_VOTE, "--iterations", "30", "--workers", "3"]);
    let page = job.page();
    let (names, texts) = parse(&page);
    assert_is_self_contained(&page, &names);
    let pictures = names.iter().filter(|name| *name == "svg").count();
    assert_eq!(pictures, 2, "of the stages and of the time");
    for words in ["pagerank", "done", "read", "combine_incoming", "worker 2", "30 times"] {
        assert!(texts.contains(words), "no {words:?}");
    }
    // Each stage is in the picture and in the table, and has its place in the time.
    for stage in account["stages"].as_array().unwrap() {
        let (number, verb) = (&stage["number"], stage["verb"].as_str().unwrap());
        assert!(texts.contains(&format!("{number} {verb}")), "stage {number} in the table");
        assert!(texts.contains(&format!("stage {number}, {verb}")), "stage {number} in a picture");
    }
    // A round goes on with the one before.
    assert_eq!(page.matches("class=\"edge again\"").count(), 1);
    assert_eq!(page.matches("class=\"loop\"").count(), 1);
}

#[test]
fn texts_are_no_markup_whatever_is_in_them() {
    let job = Accounted::new();
    let hostile = "a<b onload=\"x\">&amp;'<script>alert(1)<!--";
    let input = job.file(&hostile.replace('/', ""), "1 2\n2 3\n3 1\n");
    let output = job.path("out<i>put");
    job.done(&["pagerank", "--input", &input, "--output", &output]);
    let page = job.page();
    let (names, texts) = parse(&page);
    assert!(!names.iter().any(|name| ["b", "i", "script"].contains(&name.as_str()) && name != "i"));
    assert!(!page.contains("<script"), "{page}");
    assert!(
        texts.contains("a&lt;b onload=&quot;x&quot;&gt;&amp;amp;&#39;&lt;script&gt;"),
        "{texts}"
    );
    assert!(texts.contains("out&lt;i&gt;put"));

    // Also what a worker says of why it failed.
    let bad = job.file("bad", "1 2\n<b>\n");
    assert_eq!(job.run(&["pagerank", "--input", &bad]).code, Some(1));
    let page = job.page();
    let (names, texts) = parse(&page);
    assert_is_self_contained(&page, &names);
    assert!(texts.contains("&lt;b&gt;") && texts.contains("failed"), "{texts}");
}

#[test]
fn a_page_of_a_job_that_did_nothing_is_one_too() {
    let job = Accounted::new();
    assert_eq!(job.run(&["pagerank", "--input", &job.path("absent")]).code, Some(1));
    let page = job.page();
    let (names, texts) = parse(&page);
    assert_is_self_contained(&page, &names);
    assert!(texts.contains("no worker was started"), "{texts}");
}
