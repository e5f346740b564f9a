// The style of the tool's pages: light and dark, by what the reader's system asks.
#ifndef KEEL_EXAMPLES_CLI_BASE_PAGE_STYLE_H
#define KEEL_EXAMPLES_CLI_BASE_PAGE_STYLE_H

namespace keel_cli {

inline constexpr const char* kPageStyle = R"css(
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --ink: #16202c; --soft: #56616f; --edge: #dfe3e8; --grid: #e8ebef;
  --c1: #2a78d6; --c2: #d9730d; --c3: #1a9e72; --c4: #8452c9; --c5: #c9971a; --c6: #d6336c;
  --c7: #4b5b6b; --c8: #0f8fa8;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #12161b; --card: #1a2027; --ink: #e8ecf1; --soft: #a0abb8; --edge: #2d3640; --grid: #28303a;
    --c1: #5aa2f2; --c2: #f0954a; --c3: #3cc495; --c4: #b08bec; --c5: #e3b94f; --c6: #f06d9a;
    --c7: #9fb0c2; --c8: #41bed6;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, "Liberation Sans", sans-serif;
}
main { max-width: 1560px; margin: 0 auto; padding: 28px 24px 48px; }
h1 { font-size: 26px; margin: 0 0 4px; letter-spacing: -0.01em; }
h2 { font-size: 20px; margin: 40px 0 2px; }
h3 { font-size: 16px; margin: 0 0 2px; }
p { margin: 0 0 10px; color: var(--soft); max-width: 100ch; }
code { font: 13px/1.5 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
pre {
  margin: 10px 0; padding: 10px 14px; overflow-x: auto; white-space: pre-wrap; background: var(--card);
  border: 1px solid var(--edge); border-radius: 8px;
}
dl { display: flex; flex-wrap: wrap; gap: 6px 28px; margin: 12px 0 0; }
dl div { display: flex; gap: 8px; }
dt { color: var(--soft); }
dd { margin: 0; }
.figures { columns: 2 620px; column-gap: 18px; margin-top: 12px; }
figure { margin: 0 0 18px; padding: 18px 20px 12px; background: var(--card);
         border: 1px solid var(--edge); border-radius: 10px; break-inside: avoid; overflow: hidden; }
figure p { font-size: 13.5px; }
.plot { display: block; width: 100%; max-width: 860px; height: auto; margin: 6px auto; }
.plot text { font: 12px system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, "Liberation Sans", sans-serif;
             fill: var(--ink); }
.plot .tick, .plot .title, .plot .guide-name { fill: var(--soft); }
.plot .end { text-anchor: end; }
.plot .middle { text-anchor: middle; }
.plot .value { font-variant-numeric: tabular-nums; }
.plot .grid { stroke: var(--grid); }
.plot .axis { stroke: var(--soft); }
.plot .line { fill: none; stroke-width: 2; stroke-linejoin: round; }
.plot .whisker { stroke-width: 1.5; opacity: 0.75; }
.plot .guide { fill: none; stroke: var(--soft); stroke-width: 1.5; stroke-dasharray: 6 4; }
.plot .mark:hover { opacity: 0.7; }
.c1 { fill: var(--c1); } .c2 { fill: var(--c2); } .c3 { fill: var(--c3); } .c4 { fill: var(--c4); }
.c5 { fill: var(--c5); } .c6 { fill: var(--c6); } .c7 { fill: var(--c7); } .c8 { fill: var(--c8); }
.l1 { stroke: var(--c1); } .l2 { stroke: var(--c2); } .l3 { stroke: var(--c3); } .l4 { stroke: var(--c4); }
.l5 { stroke: var(--c5); } .l6 { stroke: var(--c6); } .l7 { stroke: var(--c7); } .l8 { stroke: var(--c8); }
.ink { stroke: var(--ink); }
details { border-top: 1px solid var(--edge); margin: 8px -20px 0; padding: 8px 20px 0; }
summary { cursor: pointer; color: var(--soft); font-size: 13.5px; }
.table { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; margin: 8px 0 4px; font-variant-numeric: tabular-nums; }
th, td { padding: 3px 12px 3px 0; text-align: right; white-space: nowrap; }
th { color: var(--soft); font-weight: 600; border-bottom: 1px solid var(--edge); }
tbody tr:nth-child(even) { background: color-mix(in srgb, var(--grid) 45%, transparent); }
th:first-child, td:first-child { text-align: left; }
.text th, .text td { text-align: left; white-space: normal; vertical-align: top; overflow-wrap: break-word; }
@media print { details { display: none; } figure { break-inside: avoid; } }
)css";

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BASE_PAGE_STYLE_H
