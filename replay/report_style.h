// The style sheet of the HTML report.
#ifndef SCALEKEEPER_REPLAY_REPORT_STYLE_H_
#define SCALEKEEPER_REPLAY_REPORT_STYLE_H_

namespace scalekeeper {

inline constexpr char kReportStyle[] = R"css(
:root {
  color-scheme: light dark;
  --page: #ffffff; --panel: #f6f7f9; --ink: #1b2430; --soft: #5a6675;
  --line: #d7dce3; --accent: #1f5fd0; --band: rgba(214, 72, 30, .16);
  --band-ink: #a8360f;
  --amax: #1b2430; --c0: #1f77d0; --c1: #c2570c; --c2: #0f8a5f;
  --h0: #8f0d1f; --h1: #e2554a; --h2: #e7f1fb; --h3: #bcd8f2; --h4: #86b6e4;
  --h5: #4c8cd0; --h6: #2760a8; --h7: #123a70;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #12161c; --panel: #1a2029; --ink: #e6eaf0; --soft: #9aa7b6;
    --line: #303a47; --accent: #7fb0ff; --band: rgba(255, 140, 90, .22);
    --band-ink: #ffb08a;
    --amax: #e6eaf0; --c0: #6cb2ff; --c1: #ffa45c; --c2: #55d3a2;
    --h0: #ff3b57; --h1: #ff9083; --h2: #1d3147; --h3: #254a70; --h4: #33699f;
    --h5: #5592d0; --h6: #8fbdec; --h7: #d3e7fb;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue",
  Arial, sans-serif; }
main { max-width: 1320px; margin: 0 auto; padding: 24px 28px 48px; }
h1 { font-size: 24px; line-height: 1.25; margin: 0 0 4px; }
h2 { font-size: 18px; margin: 36px 0 8px; }
h3 { font-size: 14px; margin: 18px 0 4px; overflow-wrap: anywhere; }
p { margin: 4px 0 8px; max-width: 84ch; }
.soft { color: var(--soft); font-size: 13px; overflow-wrap: anywhere; }
.verdict { font-size: 17px; line-height: 1.5; border-left: 4px solid
  var(--accent); padding: 10px 16px; background: var(--panel); margin: 16px 0;
  max-width: none; overflow-wrap: anywhere; }
ul { margin: 6px 0 10px; padding-left: 22px; }
li { margin: 2px 0; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px;
  font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 5px 10px; border-bottom: 1px solid
  var(--line); vertical-align: top; white-space: nowrap; }
th { color: var(--soft); font-weight: 600; vertical-align: bottom;
  white-space: normal; }
th:first-child, td:first-child { text-align: left; white-space: normal;
  overflow-wrap: anywhere; min-width: 130px; padding-left: 0; }
tr.best td { font-weight: 600; }
.bar { display: inline-block; vertical-align: middle; height: 10px;
  background: var(--line); width: 120px; }
.bar i { display: block; float: left; height: 10px; }
.r0 { background: var(--c0); } .r1 { background: var(--c1); }
.r2 { background: var(--c2); } .r3 { background: var(--h0); }
.r4 { background: var(--h6); } .r5 { background: var(--soft); }
.r6 { background: var(--h3); } .r7 { background: var(--ink); }
.legend { display: flex; flex-wrap: wrap; gap: 4px 16px; font-size: 12.5px;
  color: var(--soft); margin: 4px 0 6px; }
.legend span { display: inline-flex; align-items: center; gap: 6px;
  overflow-wrap: anywhere; }
.key { flex: none; width: 16px; height: 10px; border: 1px solid var(--line); }
.plot { display: grid; grid-template-columns: 132px minmax(0, 1fr);
  column-gap: 8px; }
.plot.small { grid-template-columns: 44px minmax(0, 1fr); }
.marks { grid-column: 2; position: relative; height: 18px; }
.marks b { position: absolute; bottom: 1px; font-size: 12px; line-height: 15px;
  font-weight: 600; color: var(--band-ink); white-space: nowrap; }
.names { position: relative; font-size: 11px; color: var(--soft); }
.names span { position: absolute; right: 0; left: 0; text-align: right;
  line-height: 14px; transform: translateY(-50%); white-space: nowrap;
  overflow: hidden; text-overflow: ellipsis; }
.canvas { position: relative; background: var(--panel); overflow: hidden; }
.canvas svg { position: absolute; inset: 0; width: 100%; height: 100%;
  display: block; }
.band { position: absolute; top: 0; bottom: 0; min-width: 3px;
  background: var(--band); border-left: 1px solid var(--band-ink);
  border-right: 1px solid var(--band-ink); }
.ticks { grid-column: 2; position: relative; height: 18px; font-size: 11px;
  color: var(--soft); }
.ticks span { position: absolute; top: 2px; line-height: 14px;
  transform: translateX(-50%); white-space: nowrap; }
.ticks span:first-child { transform: none; }
.ticks span:last-child { transform: translateX(-100%); }
.curves { display: grid; gap: 8px 28px;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 480px), 1fr)); }
.curves section { min-width: 0; }
path.l { fill: none; stroke-width: 1.6; vector-effect: non-scaling-stroke; }
path.a { stroke: var(--amax); stroke-width: 1.2; }
path.k0 { stroke: var(--c0); } path.k1 { stroke: var(--c1); }
path.k2 { stroke: var(--c2); }
path.h { fill: none; stroke-width: 1; shape-rendering: crispEdges; }
.h0 { stroke: var(--h0); } .h1 { stroke: var(--h1); }
.h2 { stroke: var(--h2); } .h3 { stroke: var(--h3); }
.h4 { stroke: var(--h4); } .h5 { stroke: var(--h5); }
.h6 { stroke: var(--h6); } .h7 { stroke: var(--h7); }
.grid { stroke: var(--line); stroke-width: 1;
  vector-effect: non-scaling-stroke; }
@media (max-width: 640px) {
  main { padding: 16px 14px 32px; }
  h1 { font-size: 20px; }
  .verdict { font-size: 15px; padding: 8px 12px; }
  .wide { display: none; }
  .plot { grid-template-columns: 84px minmax(0, 1fr); column-gap: 6px; }
  .bar { width: 64px; }
  .bar i { height: 10px; }
  th, td { padding: 5px 6px; }
  .ticks span.minor { display: none; }
}
)css";

}  // namespace scalekeeper

#endif  // SCALEKEEPER_REPLAY_REPORT_STYLE_H_
