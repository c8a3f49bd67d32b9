//! The pages in a real browser: they load no resources, log nothing on the console, do not overflow and are legible,
//! with the light and the dark theme, on a phone and in print, with and without scripts. Charts and tables react to the
//! pointer. Needs Debian's chromium.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::OnceLock;
use tempfile::TempDir;
use weir_testkit::harness;

const BROWSER: &str = "chromium";

fn main() -> ExitCode {
    let is_installed =
        Command::new(BROWSER).arg("--version").output().is_ok_and(|output| output.status.success());
    let missing = (!is_installed).then(|| "needs Debian's chromium".to_owned());
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
    ("the_live_view_clips_no_button", the_live_view_clips_no_button),
];

/// An experiment whose report has a map, flows with sizes, and pauses.
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
    static PAGES: OnceLock<(TempDir, Vec<(&str, PathBuf)>)> = OnceLock::new();
    let (_, pages) = PAGES.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        // With WEIR_PAGES the pages are kept for inspection.
        let output_dir = std::env::var_os("WEIR_PAGES").map_or_else(|| dir.path().to_owned(), PathBuf::from);
        fs::create_dir_all(&output_dir).unwrap();
        fs::write(output_dir.join("fabric.yaml"), FABRIC).unwrap();
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
            let output = command.args(arguments).arg("--quiet").current_dir(&output_dir).output().unwrap();
            assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        let pages = [
            ("run", "quickstart/report.html"),
            ("fabric", "fabric/report.html"),
            ("comparison", "comparison.html"),
            ("sweep", "sweep/report.html"),
        ];
        (dir, pages.map(|(name, path)| (name, output_dir.join(path))).into())
    });
    pages
}

/// Script that inspects the page and writes the result as JSON into the title.
const INSPECT_SCRIPT: &str = r#"<script>
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

fn chromium(page: &Path, options: &[&str]) -> (String, String) {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(BROWSER)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr"])
        .args(["--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(options)
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("chromium starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Inspects a page in a window of this size.
fn inspect(page: &Path, size: &str, options: &[&str]) -> Value {
    run_script(page, &fs::read_to_string(page).unwrap(), INSPECT_SCRIPT, size, options)
}

/// Returns the result of a script in a page, which the script writes into the title.
fn run_script(page: &Path, html: &str, script: &str, size: &str, options: &[&str]) -> Value {
    let copy = page.with_file_name(format!("looked-at-{}.html", std::process::id()));
    fs::write(&copy, html.replacen("</head>", &format!("{script}</head>"), 1)).unwrap();
    let size = format!("--window-size={size}");
    let (dom, stderr) = chromium(&copy, &[&["--dump-dom", &size][..], options].concat());
    fs::remove_file(&copy).unwrap();
    let console: Vec<&str> = stderr.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(console.is_empty(), "{}: {console:?}", page.display());
    let (_, rest) = dom.split_once("<title>").expect("a title");
    let (title, _) = rest.split_once("</title>").expect("the end of the title");
    let title = title.replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">");
    serde_json::from_str(&title).unwrap_or_else(|error| panic!("{}: {error}: {title}", page.display()))
}

const WINDOW: &str = "1100,1000";
/// Minimum contrast of WCAG for normal text.
const MIN_CONTRAST: f64 = 4.5;

/// Saves a screenshot next to the page if the variable WEIR_PAGES is set.
fn save_screenshot(page: &Path, name: &str, size: &str, options: &[&str]) {
    if std::env::var_os("WEIR_PAGES").is_some() {
        let picture = page.with_file_name(format!("{name}.png"));
        chromium(
            page,
            &[&[&*format!("--screenshot={}", picture.display()), &format!("--window-size={size}")], options]
                .concat(),
        );
    }
}

fn pages_are_whole_and_load_nothing() {
    for (name, page) in pages() {
        save_screenshot(page, &format!("{name}-light"), "1100,4200", &[]);
        let result = inspect(page, WINDOW, &[]);
        assert_eq!(result["loaded"], 0, "{name}: {result}");
        assert!(
            result["charts"].as_u64().unwrap() >= 3 && result["smallest"].as_f64().unwrap() > 60.0,
            "{name}: {result}"
        );
        assert!(result["wide"].as_f64().unwrap() <= 0.0, "{name} is wider than the window: {result}");
        assert!(result["contrast"].as_f64().unwrap() >= MIN_CONTRAST, "{name}: {result}");
        assert!(result["ground"].as_f64().unwrap() > 0.9, "{name} is light: {result}");
        assert_eq!(result["cut"], serde_json::json!([]), "{name}: text outside its chart");
        assert!(result["rows"].as_u64().unwrap() > 5, "{name}: {result}");
        let headings = result["headings"].to_string();
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

/// Emulates a system with a dark theme.
const DARK: &str = "--blink-settings=preferredColorScheme=0";

fn pages_turn_dark_with_the_system() {
    for (name, page) in pages() {
        save_screenshot(page, &format!("{name}-dark"), "1100,4200", &[DARK]);
        let result = inspect(page, WINDOW, &[DARK]);
        assert!(result["ground"].as_f64().unwrap() < 0.05, "{name} is dark: {result}");
        assert!(result["contrast"].as_f64().unwrap() >= MIN_CONTRAST, "{name}: {result}");
    }
}

fn pages_fit_a_telephone() {
    for (name, page) in pages() {
        save_screenshot(page, &format!("{name}-narrow"), "500,4200", &[]);
        let result = inspect(page, "500,900", &[]);
        assert!(result["wide"].as_f64().unwrap() <= 0.0, "{name} is wider than the window: {result}");
        assert!(result["charts"].as_u64().unwrap() >= 3, "{name}: {result}");
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

/// Returns the page without its scripts.
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
            let result = run_script(page, &html, INSPECT_SCRIPT, size, &[]);
            assert_eq!(result["drawn"], 0, "{name}: {result}");
            assert_eq!(result["charts"], result["figures"], "{name}: {result}");
            assert_eq!(result["cut"], serde_json::json!([]), "{name}: text outside its chart");
            assert!(result["wide"].as_f64().unwrap() <= 0.0, "{name} is wider than the window: {result}");
        }
    }
}

/// Executes JavaScript steps in the page of one kind, and returns the object `result` that they fill.
fn run_steps(kind: &str, steps: &str) -> Value {
    let (_, page) = pages().iter().find(|(name, _)| *name == kind).unwrap();
    let script = format!(
        r#"<script>
addEventListener("load", async () => {{
  const result = {{}};
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
  try {{ {steps} }} catch (error) {{ result.error = String(error); }}
  document.title = JSON.stringify(result);
}});
</script>"#
    );
    let html = fs::read_to_string(page).unwrap();
    let result = run_script(page, &html, &script, WINDOW, &["--virtual-time-budget=8000"]);
    assert_eq!(result["error"], Value::Null, "{result}");
    result
}

fn charts_show_values_toggle_schemes_and_zoom_together() {
    let result = run_steps(
        "run",
        r#"
        result.plots = plots.length;
        result.values = await point(plots[0], 0.316);
        document.querySelector(".legend span").click();
        await frame();
        result.pressed = [...document.querySelectorAll(".legend span")].map(entry => entry.getAttribute("aria-pressed"));
        result.less = await point(plots[0], 0.3);
        document.querySelector(".legend span").click();
        send(over(plots[0]), "mousedown", 0.3, 0.5);
        send(over(plots[0]), "mousemove", 0.4, 0.5);
        send(over(plots[0]), "mouseup", 0.4, 0.5);
        await frame();
        result.zoomed = zoomed();
        result.within = (await point(plots[0], 0.5))[0];
        const linked = plots.find(plot => plot.getAttribute("aria-label").startsWith("Utilisation"));
        result.linked = (await point(linked, 0.5))[0];
        document.querySelector(".back:not([hidden])").click();
        await frame();
        result.after = zoomed();
        result.whole = (await point(plots[0], 0.5))[0];
        "#,
    );
    let rows = |key: &str| result[key].as_array().unwrap_or_else(|| panic!("{key}: {result}")).clone();
    assert!(result["plots"].as_u64().unwrap() >= 6, "{result}");
    let values = rows("values");
    let time = |text: &Value| -> f64 {
        let text = text.as_str().unwrap_or_else(|| panic!("no time: {result}"));
        text.split(' ').next().unwrap().parse().unwrap()
    };
    assert!((time(&values[0]) - 316.0).abs() < 3.0, "{result}");
    let value_of = |scheme: &str| -> f64 {
        let row =
            values.iter().find_map(|row| row.as_str()?.strip_prefix(scheme)).expect("a value of the scheme");
        row.parse().unwrap()
    };
    // Both queues are near their peaks, 127.5 and 154.1 KB.
    assert!(
        values.len() == 3 && (90.0..128.0).contains(&value_of("fncc")) && value_of("hpcc") > 140.0,
        "{result}"
    );
    assert!(
        rows("pressed").contains(&"false".into()) && rows("pressed").contains(&"true".into()),
        "{result}"
    );
    assert_eq!(rows("less").len(), 2, "one scheme is hidden: {result}");
    let over_time = result["zoomed"].as_u64().unwrap();
    assert!(
        over_time >= 5 && over_time < result["plots"].as_u64().unwrap(),
        "all charts over time: {result}"
    );
    for key in ["within", "linked"] {
        assert!((time(&result[key]) - 350.0).abs() < 8.0, "{key} {result}");
    }
    assert_eq!(result["after"], 0, "{result}");
    assert!((time(&result["whole"]) - 500.0).abs() < 3.0, "{result}");
}

fn the_table_of_flows_sorts_and_filters() {
    let result = run_steps(
        "fabric",
        r#"
        const table = document.querySelector(".flows"), filter = document.querySelector(".filter");
        document.querySelector(".flows-section details").open = true;
        const column = i => [...table.querySelectorAll("tbody tr")].map(row => row.children[i].textContent);
        const type = text => { filter.value = text; filter.dispatchEvent(new Event("input")); };
        const count = () => parseInt(document.querySelector(".flows-section .more").textContent.replace(",", ""));
        result.all = count();
        table.querySelectorAll("th")[5].click();
        result.slowest = column(5).map(Number);
        table.querySelectorAll("th")[5].click();
        result.fastest = column(5).map(Number);
        type("hpcc slowdown>2");
        result.some = count();
        result.schemes = [...new Set(column(1))];
        result.slow = column(5).map(Number);
        type("h3->");
        result.from = column(0);
        "#,
    );
    let numbers = |key: &str| -> Vec<f64> {
        result[key].as_array().unwrap().iter().map(|value| value.as_f64().unwrap_or(f64::MAX)).collect()
    };
    let (slowest, fastest) = (numbers("slowest"), numbers("fastest"));
    assert!(slowest.is_sorted_by(|a, b| a >= b) && fastest.is_sorted_by(|a, b| a <= b), "{result}");
    assert!(slowest[0] > fastest[0], "{result}");
    assert!(
        0 < result["some"].as_u64().unwrap() && result["some"].as_u64() < result["all"].as_u64(),
        "{result}"
    );
    assert_eq!(result["schemes"], serde_json::json!(["hpcc"]));
    assert!(numbers("slow").iter().all(|&slowdown| slowdown > 2.0), "{result}");
    let from = result["from"].as_array().unwrap();
    assert!(!from.is_empty() && from.iter().all(|flow| flow.as_str().unwrap().contains("h3→")), "{result}");
}

/// Answers the live view's poll with ports whose names and values are long, and then reports what is visible.
const LIVE_SCRIPT: &str = r##"<script>
{
const ports = [1, 2, 3].map(i => ({ name: `spine${i}:12`, peer: "leaf12:10", is_up: i !== 2, load: 0.937, rate_bps: 99.9e9,
  queue: 128400000, peak: 154124000 }));
const scene = { title: "mixed", clock: "812 us of 1 ms", progress: 0.8, is_paused: false, is_over: false, ports, switches: [],
  flows: [], flows_note: "Known at the end", totals: [], note: "", keys: [["d", "link down/up"]] };
window.fetch = async () => {
  window.fetch = () => new Promise(() => {});
  setTimeout(() => {
    const box = document.querySelector("#ports .scroll").getBoundingClientRect();
    const buttons = [...document.querySelectorAll("#ports button")].map(b => b.getBoundingClientRect());
    document.title = JSON.stringify({
      buttons: buttons.length, clipped: buttons.filter(b => b.right > box.right + 1 || b.right > innerWidth).length,
      wide: document.documentElement.scrollWidth - innerWidth, flows: document.getElementById("flows").innerText,
    });
  }, 500);
  return { ok: true, json: async () => scene };
};
}
</script>"##;

/// With two columns on a window of 1,100 pixels, the table of ports was wider than its column.
fn the_live_view_clips_no_button() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("live.html");
    let html = include_str!("../src/live/page.html").replacen("<main>", "</head><main>", 1);
    for width in [1400, 1100, 800, 500] {
        let budget = &["--virtual-time-budget=3000"];
        let result = run_script(&page, &html, LIVE_SCRIPT, &format!("{width},700"), budget);
        assert_eq!((&result["buttons"], &result["clipped"]), (&3.into(), &0.into()), "{width}: {result}");
        assert!(result["wide"].as_f64().unwrap() <= 0.0, "{width}: {result}");
        assert!(result["flows"].as_str().unwrap().contains("Known at the end"), "{width}: {result}");
    }
}
