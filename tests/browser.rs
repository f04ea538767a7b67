// SPDX-License-Identifier: GPL-2.0-only
//! A page as a browser shows it on a phone, and on a desk.

use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "notes.rs"]
mod notes;

/// What a browser makes of a page in a window of 360 pixels.
pub struct Seen {
    /// How wide the page is, in pixels.
    pub width: u32,
    /// How many figures have a width.
    pub nr_figures: u32,
    /// The colour behind the text.
    pub ground: String,
    /// Its text.
    pub text: String,
    /// Words in the heads of tables that are broken in the middle, on a phone of 390 pixels and in a window of 1280.
    pub broken: String,
    /// How much wider the page is than those two.
    pub beyond: u32,
}

/// A browser, if there is one.
fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<_> = std::env::split_paths(&path).collect();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let files = names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    files.into_iter().find(|file| file.is_file())
}

/// `page.html` in this folder, for who prefers light pages and for who prefers dark ones; none, and a note, without a browser.
pub fn shown_on_a_phone(folder: &Path) -> Option<[Seen; 2]> {
    let Some(browser) = browser() else {
        notes::note("skipped what asks a browser: no chromium on PATH; apt-get install chromium");
        return None;
    };
    // The page may run no script, so a frame as wide as a phone measures it from outside.
    let frame = "<!DOCTYPE html><body><iframe src='page.html' width='360' height='800'></iframe>\
        <iframe src='page.html' width='390' height='800'></iframe><iframe src='page.html' width='1280' height='800'></iframe><script>\
        const broken = page => { const words = []; for (const head of page.querySelectorAll('th')) {\
        if (head.closest('thead')?.offsetWidth <= 1) continue;\
        const texts = page.createTreeWalker(head, NodeFilter.SHOW_TEXT);\
        while (texts.nextNode()) for (const word of texts.currentNode.data.matchAll(/[A-Za-z]+/g)) {\
        const range = page.createRange(); range.setStart(texts.currentNode, word.index);\
        range.setEnd(texts.currentNode, word.index + word[0].length);\
        if (new Set([...range.getClientRects()].map(box => box.top)).size > 1) words.push(word[0]); } } return words; };\
        addEventListener('load', () => { const page = document.querySelector('iframe').contentDocument;\
        const small = [...page.querySelectorAll('figure svg')].filter(svg => svg.getBoundingClientRect().width > 0);\
        const seen = document.body.dataset; seen.width = page.documentElement.scrollWidth; seen.figures = small.length;\
        seen.ground = page.defaultView.getComputedStyle(page.body).backgroundColor; seen.text = page.body.innerText;\
        const others = [...document.querySelectorAll('iframe')].slice(1);\
        seen.broken = others.flatMap(frame => broken(frame.contentDocument)).join(' ');\
        const beyond = root => root.scrollWidth - root.clientWidth;\
        seen.beyond = Math.max(...others.map(frame => beyond(frame.contentDocument.documentElement))); })</script>";
    std::fs::write(folder.join("frame.html"), frame).unwrap();
    // Blink's enumeration: 0 is dark, 1 light.
    Some([1, 0].map(|scheme| {
        let output = Command::new(&browser)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--allow-file-access-from-files",
            ])
            .args(["--virtual-time-budget=10000", "--dump-dom"])
            .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
            .arg(format!("--user-data-dir={}", folder.join("profile").display()))
            .arg(format!("file://{}", folder.join("frame.html").display()))
            .output()
            .unwrap();
        seen(&String::from_utf8_lossy(&output.stdout))
    }))
}

fn seen(dom: &str) -> Seen {
    let value = |name: &str| {
        let found = dom.split_once(&format!("data-{name}=\""));
        let (_, after) = found.unwrap_or_else(|| panic!("{name}: {dom}"));
        after.split('"').next().unwrap().to_string()
    };
    Seen {
        width: value("width").parse().unwrap(),
        nr_figures: value("figures").parse().unwrap(),
        ground: value("ground"),
        text: value("text"),
        broken: value("broken"),
        beyond: value("beyond").parse().unwrap(),
    }
}
