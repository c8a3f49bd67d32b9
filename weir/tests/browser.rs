//! The pages in a real browser: nothing is loaded, nothing is said on its console, nothing sticks out, letters can be
//! read, by day, by night, on a telephone and on paper, with scripts and without. Charts and tables answer the pointer.
//! Needs Debian's chromium.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::OnceLock;
use tempfile::TempDir;
use weir_testkit::harness;

const BROWSER: &str = "chromium";

fn main() -> ExitCode {
    let there = Command::new(BROWSER).arg("--version").output().is_ok_and(|done| done.status.success());
    let missing = (!there).then(|| "needs Debian's chromium".to_owned());
    harness::run(TESTS, missing)
}

const TESTS: &[harness::Test] = &[
    ("pages_are_whole_and_load_nothing", pages_are_whole_and_load_nothing),
    ("pages_turn_dark_with_the_system", pages_turn_dark_with_the_system),
    ("pages_fit_a_telephone", pages_fit_a_telephone),
    ("pages_can_be_printed", pages_can_be_printed),
    ("pages_without_scripts_show_every_chart", pages_without_scripts_show_every_chart),
    (
        "charts_show_values_toggle_schemes_and_zoom_together",
        charts_show_values_toggle_schemes_and_zoom_together,
    ),
    ("the_table_of_flows_sorts_and_filters", the_table_of_flows_sorts_and_filters),
];

/// A fabric with a map, flows with sizes, pauses.
const FABRIC: &str = "\
name: fabric
title: Messages on a small leaf-spine
topology: {kind: leaf-spine, leaves: 3, spines: 2, hosts_per_leaf: 3, host_rate: 25Gbps, fabric_rate: 25Gbps}
schemes: [fncc, hpcc, dcqcn]
workload: {kind: messages, size: 20KB, load: 0.5}
duration: 300us
pfc: {threshold: 20KB}
observe: {ports: all}
paper:
  - {what: p95, value: '1.2', source: Fig. 1, ours: fncc.fct.slowdown.p95, reason: a smaller fabric}
";

/// Pages of all kinds, by name.
fn pages() -> &'static [(&'static str, PathBuf)] {
    static MADE: OnceLock<(TempDir, Vec<(&str, PathBuf)>)> = OnceLock::new();
    let (_, pages) = MADE.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        // To be looked at afterwards.
        let place = std::env::var_os("WEIR_PAGES").map_or_else(|| dir.path().to_owned(), PathBuf::from);
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join("fabric.yaml"), FABRIC).unwrap();
        let quickstart = concat!(env!("CARGO_MANIFEST_DIR"), "/../experiments/quickstart.yaml");
        for arguments in [
            &["run", quickstart, "--out", "quickstart"][..],
            &["run", "fabric.yaml", "--out", "fabric"],
            &["run", "fabric.yaml", "--out", "busy", "--set", "workload.load=0.7", "--seed", "2"],
            &["report", "fabric", "busy", "--out", "comparison.html"],
            &[
                "sweep",
                "fabric.yaml",
                "--over",
                "workload.load=0.3,0.6",
                "--over",
                "seed=1..3",
                "--out",
                "sweep",
            ],
        ] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
            let done = command.args(arguments).arg("--quiet").current_dir(&place).output().unwrap();
            assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
        }
        let pages = [
            ("run", "quickstart/report.html"),
            ("fabric", "fabric/report.html"),
            ("comparison", "comparison.html"),
            ("sweep", "sweep/report.html"),
        ];
        (dir, pages.map(|(name, path)| (name, place.join(path))).into())
    });
    pages
}

/// Runs in the page and says what is there in its title.
const LOOK: &str = r#"<script>
addEventListener("load", () => {
  const shown = [...document.querySelectorAll("svg.chart, .plot canvas")].map(s => s.getBoundingClientRect()).filter(r => r.width > 0);
  const channels = c => c.match(/[\d.]+/g).slice(0, 3).map(Number);
  const light = c => { const [r, g, b] = channels(c).map(v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = light(getComputedStyle(document.body).backgroundColor);
  const ratio = c => { const l = light(c); return (Math.max(l, ground) + 0.05) / (Math.min(l, ground) + 0.05); };
  const letters = [...document.querySelectorAll("h1, h2, p, td, th, dt, dd, summary")].map(e => ratio(getComputedStyle(e).color))
    .concat([...document.querySelectorAll("svg.chart text")].map(e => ratio(getComputedStyle(e).fill)));
  const cut = [...document.querySelectorAll("svg.chart")].filter(s => s.getBoundingClientRect().width > 0).flatMap(s => {
    const box = s.getBoundingClientRect();
    return [...s.querySelectorAll("text")].filter(t => { const r = t.getBoundingClientRect(); return r.left < box.left - 3 || r.right > box.right + 3; })
      .map(t => t.textContent);
  });
  document.title = JSON.stringify({
    charts: shown.length, drawn: document.querySelectorAll(".plot canvas").length, figures: document.querySelectorAll("figure").length, smallest: Math.min(...shown.map(r => Math.min(r.width, r.height))),
    loaded: performance.getEntriesByType("resource").length,
    wide: document.documentElement.scrollWidth - innerWidth, ground, contrast: Math.min(...letters), cut,
    headings: [...document.querySelectorAll("h2")].map(h => h.textContent), rows: document.querySelectorAll("tbody tr").length,
  });
});
</script>"#;

fn chromium(page: &Path, more: &[&str]) -> (String, String) {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(BROWSER)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr"])
        .args(["--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(more)
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("chromium starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Returns the browser's view of a page in a window of this size.
fn look(page: &Path, size: &str, more: &[&str]) -> Value {
    look_at(page, &fs::read_to_string(page).unwrap(), LOOK, size, more)
}

/// Returns the result of a script in a page, which the script writes into the title.
fn look_at(page: &Path, html: &str, script: &str, size: &str, more: &[&str]) -> Value {
    let copy = page.with_file_name(format!("looked-at-{}.html", std::process::id()));
    fs::write(&copy, html.replacen("</head>", &format!("{script}</head>"), 1)).unwrap();
    let size = format!("--window-size={size}");
    let (dom, said) = chromium(&copy, &[&["--dump-dom", &size][..], more].concat());
    fs::remove_file(&copy).unwrap();
    let console: Vec<&str> = said.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(console.is_empty(), "{}: {console:?}", page.display());
    let (_, rest) = dom.split_once("<title>").expect("a title");
    let (title, _) = rest.split_once("</title>").expect("its end");
    let title = title.replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">");
    serde_json::from_str(&title).unwrap_or_else(|error| panic!("{}: {error}: {title}", page.display()))
}

const WINDOW: &str = "1100,1000";
/// WCAG's for small letters.
const LEGIBLE: f64 = 4.5;

/// For who wants to see what the test saw: WEIR_PAGES names a folder.
fn keep_a_picture(page: &Path, name: &str, size: &str, more: &[&str]) {
    if std::env::var_os("WEIR_PAGES").is_some() {
        let picture = page.with_file_name(format!("{name}.png"));
        chromium(
            page,
            &[&[&*format!("--screenshot={}", picture.display()), &format!("--window-size={size}")], more]
                .concat(),
        );
    }
}

fn pages_are_whole_and_load_nothing() {
    for (name, page) in pages() {
        keep_a_picture(page, &format!("{name}-light"), "1100,4200", &[]);
        let seen = look(page, WINDOW, &[]);
        assert_eq!(seen["loaded"], 0, "{name}: {seen}");
        assert!(
            seen["charts"].as_u64().unwrap() >= 3 && seen["smallest"].as_f64().unwrap() > 60.0,
            "{name}: {seen}"
        );
        assert!(seen["wide"].as_f64().unwrap() <= 0.0, "{name} sticks out: {seen}");
        assert!(seen["contrast"].as_f64().unwrap() >= LEGIBLE, "{name}: {seen}");
        assert!(seen["ground"].as_f64().unwrap() > 0.9, "{name} is light: {seen}");
        assert_eq!(seen["cut"], serde_json::json!([]), "{name}: letters outside their picture");
        assert!(seen["rows"].as_u64().unwrap() > 5, "{name}: {seen}");
        let headings = seen["headings"].to_string();
        let expected: &[&str] = match *name {
            "run" => {
                &["Summary", "Comparison with the paper", "Queue length", "Sending rates", "Utilisation"]
            }
            "fabric" => &["Summary", "Flow completion", "Link load", "PFC pauses"],
            "comparison" => &["Runs", "Differences", "Summary", "Comparison with the paper", "Link load"],
            _ => &["Means", "Charts", "Runs"],
        };
        for heading in expected {
            assert!(headings.contains(heading), "{name}: {heading} in {headings}");
        }
    }
}

/// As a system in dark dress asks for it.
const DARK: &str = "--blink-settings=preferredColorScheme=0";

fn pages_turn_dark_with_the_system() {
    for (name, page) in pages() {
        keep_a_picture(page, &format!("{name}-dark"), "1100,4200", &[DARK]);
        let seen = look(page, WINDOW, &[DARK]);
        assert!(seen["ground"].as_f64().unwrap() < 0.05, "{name} is dark: {seen}");
        assert!(seen["contrast"].as_f64().unwrap() >= LEGIBLE, "{name}: {seen}");
    }
}

fn pages_fit_a_telephone() {
    for (name, page) in pages() {
        keep_a_picture(page, &format!("{name}-narrow"), "500,4200", &[]);
        let seen = look(page, "500,900", &[]);
        assert!(seen["wide"].as_f64().unwrap() <= 0.0, "{name} sticks out: {seen}");
        assert!(seen["charts"].as_u64().unwrap() >= 3, "{name}: {seen}");
    }
}

fn pages_can_be_printed() {
    for (name, page) in pages() {
        let paper = page.with_file_name(format!("{name}.pdf"));
        chromium(page, &[&*format!("--print-to-pdf={}", paper.display()), "--no-pdf-header-footer"]);
        let bytes = fs::read(&paper).unwrap();
        assert!(bytes.starts_with(b"%PDF") && bytes.len() > 20_000, "{name}: {} bytes", bytes.len());
    }
}

/// The page as a browser shows it that runs no scripts.
fn without_scripts(html: &str) -> String {
    let parts = html.split("<script").enumerate();
    let text = |(i, part): (usize, &str)| match (i, part.split_once("</script>")) {
        (0, _) | (_, None) => part.to_owned(),
        (_, Some((_, rest))) => rest.to_owned(),
    };
    parts.map(text).collect()
}

fn pages_without_scripts_show_every_chart() {
    for (name, page) in pages() {
        let html = without_scripts(&fs::read_to_string(page).unwrap());
        for size in [WINDOW, "500,900"] {
            let seen = look_at(page, &html, LOOK, size, &[]);
            assert_eq!(seen["drawn"], 0, "{name}: {seen}");
            assert_eq!(seen["charts"], seen["figures"], "{name}: {seen}");
            assert_eq!(seen["cut"], serde_json::json!([]), "{name}: letters outside their picture");
            assert!(seen["wide"].as_f64().unwrap() <= 0.0, "{name} sticks out: {seen}");
        }
    }
}

/// The page of one kind, after these steps of a script that sets `seen`.
fn after(kind: &str, steps: &str) -> Value {
    let (_, page) = pages().iter().find(|(name, _)| *name == kind).unwrap();
    let script = format!(
        r#"<script>
addEventListener("load", async () => {{
  const seen = {{}};
  const frame = () => new Promise(done => setTimeout(done, 60));
  const send = (element, kind, x, y) => {{
    const box = element.getBoundingClientRect();
    element.dispatchEvent(new MouseEvent(kind, {{clientX: box.left + x * box.width, clientY: box.top + y * box.height, movementX: 1, bubbles: true, view: window}}));
  }};
  const plots = [...document.querySelectorAll(".plot")];
  const over = plot => plot.querySelector(".u-over");
  const tip = plot => plot.querySelector(".tip").hidden ? null : [...plot.querySelectorAll(".tip div")].map(row => row.textContent);
  const point = async (plot, x) => {{ send(over(plot), "mouseenter", x, 0.5); send(over(plot), "mousemove", x, 0.5); await frame(); return tip(plot); }};
  const zoomed = () => document.querySelectorAll(".back:not([hidden])").length;
  await frame();
  try {{ {steps} }} catch (error) {{ seen.error = String(error); }}
  document.title = JSON.stringify(seen);
}});
</script>"#
    );
    let html = fs::read_to_string(page).unwrap();
    let seen = look_at(page, &html, &script, WINDOW, &["--virtual-time-budget=8000"]);
    assert_eq!(seen["error"], Value::Null, "{seen}");
    seen
}

fn charts_show_values_toggle_schemes_and_zoom_together() {
    let seen = after(
        "run",
        r#"
        seen.plots = plots.length;
        seen.values = await point(plots[0], 0.316);
        document.querySelector(".legend span").click();
        await frame();
        seen.pressed = [...document.querySelectorAll(".legend span")].map(entry => entry.getAttribute("aria-pressed"));
        seen.less = await point(plots[0], 0.3);
        document.querySelector(".legend span").click();
        send(over(plots[0]), "mousedown", 0.3, 0.5);
        send(over(plots[0]), "mousemove", 0.4, 0.5);
        send(over(plots[0]), "mouseup", 0.4, 0.5);
        await frame();
        seen.zoomed = zoomed();
        seen.within = (await point(plots[0], 0.5))[0];
        const linked = plots.find(plot => plot.getAttribute("aria-label").startsWith("Utilisation"));
        seen.linked = (await point(linked, 0.5))[0];
        document.querySelector(".back:not([hidden])").click();
        await frame();
        seen.after = zoomed();
        seen.whole = (await point(plots[0], 0.5))[0];
        "#,
    );
    let rows = |key: &str| seen[key].as_array().unwrap_or_else(|| panic!("{key}: {seen}")).clone();
    assert!(seen["plots"].as_u64().unwrap() >= 6, "{seen}");
    let values = rows("values");
    let time = |text: &Value| -> f64 {
        let text = text.as_str().unwrap_or_else(|| panic!("no time: {seen}"));
        text.split(' ').next().unwrap().parse().unwrap()
    };
    assert!((time(&values[0]) - 316.0).abs() < 3.0, "{seen}");
    let of = |scheme: &str| -> f64 {
        let row =
            values.iter().find_map(|row| row.as_str()?.strip_prefix(scheme)).expect("a value of the scheme");
        row.parse().unwrap()
    };
    // Both queues are near their peaks, 127.5 and 154.1 KB.
    assert!(values.len() == 3 && (90.0..128.0).contains(&of("fncc")) && of("hpcc") > 140.0, "{seen}");
    assert!(rows("pressed").contains(&"false".into()) && rows("pressed").contains(&"true".into()), "{seen}");
    assert_eq!(rows("less").len(), 2, "one scheme is hidden: {seen}");
    let over_time = seen["zoomed"].as_u64().unwrap();
    assert!(over_time >= 5 && over_time < seen["plots"].as_u64().unwrap(), "all charts over time: {seen}");
    for key in ["within", "linked"] {
        assert!((time(&seen[key]) - 350.0).abs() < 8.0, "{key} {seen}");
    }
    assert_eq!(seen["after"], 0, "{seen}");
    assert!((time(&seen["whole"]) - 500.0).abs() < 3.0, "{seen}");
}

fn the_table_of_flows_sorts_and_filters() {
    let seen = after(
        "fabric",
        r#"
        const table = document.querySelector(".flows"), filter = document.querySelector(".filter");
        document.querySelector(".flows-section details").open = true;
        const column = i => [...table.querySelectorAll("tbody tr")].map(row => row.children[i].textContent);
        const type = text => { filter.value = text; filter.dispatchEvent(new Event("input")); };
        const count = () => parseInt(document.querySelector(".flows-section .more").textContent.replace(",", ""));
        seen.all = count();
        table.querySelectorAll("th")[5].click();
        seen.slowest = column(5).map(Number);
        table.querySelectorAll("th")[5].click();
        seen.fastest = column(5).map(Number);
        type("hpcc slowdown>2");
        seen.some = count();
        seen.schemes = [...new Set(column(1))];
        seen.slow = column(5).map(Number);
        type("h3->");
        seen.from = column(0);
        "#,
    );
    let numbers = |key: &str| -> Vec<f64> {
        seen[key].as_array().unwrap().iter().map(|value| value.as_f64().unwrap_or(f64::MAX)).collect()
    };
    let (slowest, fastest) = (numbers("slowest"), numbers("fastest"));
    assert!(slowest.is_sorted_by(|a, b| a >= b) && fastest.is_sorted_by(|a, b| a <= b), "{seen}");
    assert!(slowest[0] > fastest[0], "{seen}");
    assert!(0 < seen["some"].as_u64().unwrap() && seen["some"].as_u64() < seen["all"].as_u64(), "{seen}");
    assert_eq!(seen["schemes"], serde_json::json!(["hpcc"]));
    assert!(numbers("slow").iter().all(|&slowdown| slowdown > 2.0), "{seen}");
    let from = seen["from"].as_array().unwrap();
    assert!(!from.is_empty() && from.iter().all(|flow| flow.as_str().unwrap().contains("h3→")), "{seen}");
}
