//! Plots as SVG: bars of ratios on a logarithmic scale, and panels with lines.

use std::fmt::Write;

use crate::report::rows::number;

pub struct Bar {
    pub name: String,
    /// Factor by which flotilla is better; below one it is worse.
    pub ratio: f64,
}

pub struct Lines {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

pub struct Panel {
    pub title: String,
    pub x: String,
    pub lines: Vec<Lines>,
}

const COLORS: [&str; 4] = ["#0b7285", "#e8590c", "#868e96", "#5f3dc4"];
const BEHIND: &str = "#c92a2a";
const GRID: &str = "#dee2e6";
const BAR_HEIGHT: f64 = 22.0;
const LABEL_WIDTH: f64 = 430.0;
const BARS_WIDTH: f64 = 420.0;
const PANEL: (f64, f64) = (360.0, 290.0);
/// Top, right, bottom, left; the legend is at the top.
const MARGIN: (f64, f64, f64, f64) = (70.0, 14.0, 44.0, 52.0);

/// One bar each, to the right of one if ahead and to the left if behind.
pub fn bars(title: &str, bars: &[Bar]) -> String {
    let least = bars.iter().map(|bar| bar.ratio).fold(1.0, f64::min).max(0.01);
    let most = bars.iter().map(|bar| bar.ratio).fold(10.0, f64::max);
    let (low, high) = (least.log10().floor(), most.log10().ceil());
    let x = |ratio: f64| LABEL_WIDTH + (ratio.max(0.01).log10() - low) / (high - low) * BARS_WIDTH;
    let height = 56.0 + BAR_HEIGHT * bars.len() as f64 + 24.0;
    let mut body = text(12.0, 22.0, "start", 15, title);
    for power in low as i32..=high as i32 {
        let at = x(10f64.powi(power));
        body += &line((at, 40.0), (at, height - 24.0), GRID, 1.0);
        let label = if power >= 0 {
            format!("{}×", 10u32.pow(power as u32))
        } else {
            format!("1/{}", 10u32.pow(-power as u32))
        };
        body += &text(at, height - 8.0, "middle", 11, &label);
    }
    for (index, bar) in bars.iter().enumerate() {
        let top = 44.0 + BAR_HEIGHT * index as f64;
        let (from, to) = (x(1.0).min(x(bar.ratio)), x(1.0).max(x(bar.ratio)));
        let color = if bar.ratio < 1.0 { BEHIND } else { COLORS[0] };
        body += &text(LABEL_WIDTH - 8.0, top + 14.0, "end", 11, &bar.name);
        let (width, height) = ((to - from).max(1.0), BAR_HEIGHT - 6.0);
        let _ = writeln!(
            body,
            r#"<rect x="{from:.1}" y="{top:.1}" width="{width:.1}" height="{height:.1}" fill="{color}"/>"#
        );
        body += &text(to + 4.0, top + 14.0, "start", 11, &format!("{:.1}×", bar.ratio));
    }
    body += &line((x(1.0), 36.0), (x(1.0), height - 24.0), "#212529", 1.5);
    document(LABEL_WIDTH + BARS_WIDTH + 70.0, height, &body)
}

/// Adjacent panels, each with its own scale from zero.
pub fn panels(panels: &[Panel]) -> String {
    let mut body = String::new();
    for (index, panel) in panels.iter().enumerate() {
        let _ = writeln!(body, r#"<g transform="translate({:.1},0)">{}</g>"#, PANEL.0 * index as f64, draw(panel));
    }
    document(PANEL.0 * panels.len() as f64, PANEL.1, &body)
}

fn draw(panel: &Panel) -> String {
    let (top, right, bottom, left) = MARGIN;
    let all = || panel.lines.iter().flat_map(|line| line.points.iter());
    let x_max = round_up(all().map(|point| point.0).fold(0.0, f64::max));
    let y_max = round_up(all().map(|point| point.1).fold(0.0, f64::max));
    let x = |value: f64| left + value / x_max * (PANEL.0 - left - right);
    let y = |value: f64| PANEL.1 - bottom - value / y_max * (PANEL.1 - top - bottom);
    let mut body = text(left, 18.0, "start", 13, &panel.title);
    for step in 0..=4 {
        let share = f64::from(step) / 4.0;
        body += &line((left, y(share * y_max)), (PANEL.0 - right, y(share * y_max)), GRID, 1.0);
        body += &text(left - 5.0, y(share * y_max) + 4.0, "end", 10, &tick(share * y_max));
        body += &text(x(share * x_max), PANEL.1 - bottom + 14.0, "middle", 10, &tick(share * x_max));
    }
    body += &text((left + PANEL.0 - right) / 2.0, PANEL.1 - 14.0, "middle", 11, &panel.x);
    for (index, lines) in panel.lines.iter().enumerate() {
        let color = COLORS[index % COLORS.len()];
        let points: Vec<String> =
            lines.points.iter().map(|(at, value)| format!("{:.1},{:.1}", x(*at), y(*value))).collect();
        let points = points.join(" ");
        let _ = writeln!(body, r#"<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>"#);
        let at = 34.0 + 13.0 * index as f64;
        body += &line((PANEL.0 - right - 110.0, at - 4.0), (PANEL.0 - right - 96.0, at - 4.0), color, 2.0);
        body += &text(PANEL.0 - right - 92.0, at, "start", 10, &lines.name);
    }
    body
}

/// Rounds up to one significant digit.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let unit = 10f64.powf(value.log10().floor());
    let steps = [1.0, 1.2, 1.6, 2.0, 2.4, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    steps.into_iter().map(|step| step * unit).find(|step| *step >= value).unwrap_or(10.0 * unit)
}

fn tick(value: f64) -> String {
    let text = number(value);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn line(from: (f64, f64), to: (f64, f64), color: &str, width: f64) -> String {
    format!(
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{color}\" stroke-width=\"{width}\"/>\n",
        from.0, from.1, to.0, to.1
    )
}

fn text(x: f64, y: f64, anchor: &str, size: u32, words: &str) -> String {
    let words = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\">{words}</text>\n")
}

fn document(width: f64, height: f64, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" fill=\"#212529\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{body}</svg>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::{Bar, Lines, Panel, bars, panels, round_up};

    #[test]
    fn scales_end_at_a_round_figure_above_all_values() {
        for (value, expected) in [(0.0, 1.0), (1.0, 1.0), (97.0, 100.0), (19_500.0, 20_000.0), (0.013, 0.016)] {
            assert!((round_up(value) - expected).abs() < 1e-9, "{value}: {}", round_up(value));
        }
    }

    #[test]
    fn worse_ratios_are_drawn_to_the_left_in_another_color() {
        let svg =
            bars("a < b", &[Bar { name: "ahead".into(), ratio: 12.0 }, Bar { name: "behind".into(), ratio: 0.5 }]);
        let rects: Vec<&str> = svg.lines().filter(|line| line.starts_with("<rect x")).collect();
        let left = |rect: &str| rect.split('"').nth(1).and_then(|x| x.parse::<f64>().ok()).expect("a place");
        assert!(left(rects[1]) < left(rects[0]), "{svg}");
        assert!(rects[1].contains(super::BEHIND) && !rects[0].contains(super::BEHIND));
        assert!(svg.contains("a &lt; b") && svg.contains("12.0×") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn every_line_of_a_panel_is_inside_it() {
        let points = vec![(1000.0, 90.0), (20_000.0, 110.0)];
        let panel = |title: &str| Panel {
            title: title.into(),
            x: "objects".into(),
            lines: vec![Lines { name: "ours".into(), points: points.clone() }],
        };
        let svg = panels(&[panel("one"), panel("two")]);
        assert_eq!(svg.matches("<polyline").count(), 2);
        let drawn = svg.split("points=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("points");
        for number in drawn.split([' ', ',']).map(|n| n.parse::<f64>().expect("a number")) {
            assert!((0.0..=360.0).contains(&number), "{drawn}");
        }
    }
}
