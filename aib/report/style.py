"""The page's style sheet. No fonts, scripts or pictures are fetched from anywhere."""

CSS = """
:root { color-scheme: light dark; --page:#fbfbfa; --card:#fff; --ink:#1d2127; --soft:#5d6673;
  --rule:#e2e4e8; --accent:#0b6bcb; --good:#1a7f4b; --warn:#a15c00;
  --c0:#0b6bcb; --c1:#d1495b; --c2:#1a8f5a; --c3:#b7791f; --c4:#7a4fc9; --c5:#5d6673; }
@media (prefers-color-scheme: dark) { :root { --page:#14171b; --card:#1c2026; --ink:#e7eaee;
  --soft:#9aa4b2; --rule:#313842; --accent:#6cb2ff; --good:#5fd39a; --warn:#f0b35a;
  --c0:#6cb2ff; --c1:#ff8a97; --c2:#5fd39a; --c3:#f0b35a; --c4:#b79bff; --c5:#9aa4b2; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); line-height: 1.55;
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 66rem; margin: 0 auto; padding: 2.2rem 1.1rem 4rem; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .3rem; letter-spacing: -.01em; }
h2 { font-size: 1.25rem; margin: 2.8rem 0 .7rem; padding-top: 1.1rem;
  border-top: 1px solid var(--rule); }
h3 { font-size: 1rem; margin: 1.6rem 0 .5rem; }
p { margin: .5rem 0; max-width: 46rem; }
.soft, figcaption, caption { color: var(--soft); font-size: .875rem; }
a { color: var(--accent); }
nav { font-size: .875rem; margin-top: .8rem; display: flex; flex-wrap: wrap; gap: .3rem 1rem; }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: .85rem; }
pre { background: var(--card); border: 1px solid var(--rule); border-radius: 8px;
  padding: .8rem 1rem; overflow-x: auto; }
.cards { display: grid; gap: .8rem; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr));
  margin: 1.4rem 0; }
.card { background: var(--card); border: 1px solid var(--rule); border-radius: 10px;
  padding: .8rem 1rem; }
.card .value { font-size: 1.5rem; font-weight: 650; line-height: 1.25;
  font-variant-numeric: tabular-nums; }
.card .what { color: var(--soft); font-size: .8rem; }
.verdict { border-left: 4px solid var(--c5); background: var(--card); border-radius: 0 8px 8px 0;
  padding: .7rem 1rem; margin: 1rem 0; max-width: 50rem; }
.verdict.used { border-color: var(--good); }
.verdict.decorative, .verdict.undecided { border-color: var(--warn); }
.charts { display: grid; gap: 1rem; margin: .9rem 0;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 24rem), 1fr)); }
.panels { grid-template-columns: repeat(auto-fill, minmax(min(100%, 18rem), 1fr)); }
figure { margin: 0; }
.chart { background: var(--card); border: 1px solid var(--rule); border-radius: 10px;
  padding: .8rem .8rem .4rem; }
.chart figcaption { color: var(--ink); font-weight: 600; margin: 0 .2rem .4rem; }
.chart svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--soft); font-size: 11.5px; font-family: inherit; }
.panels svg text { font-size: 14.5px; }
svg .end { text-anchor: end; } svg .mid { text-anchor: middle; }
svg .grid { stroke: var(--rule); stroke-width: 1; }
svg .line { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
svg .thin { stroke-width: 1; } svg .dashed { stroke-dasharray: 4 4; }
svg .c0 { stroke: var(--c0); } svg .c1 { stroke: var(--c1); } svg .c2 { stroke: var(--c2); }
svg .c3 { stroke: var(--c3); } svg .c4 { stroke: var(--c4); } svg .c5 { stroke: var(--c5); }
svg .bar { fill: var(--c0); opacity: .75; }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--rule);
  border-radius: 10px; margin: .6rem 0; }
table { border-collapse: collapse; width: 100%; font-size: .875rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .42rem .8rem; text-align: right; white-space: nowrap; }
th { font-weight: 600; color: var(--soft); vertical-align: bottom; }
thead th { border-bottom: 1px solid var(--rule); white-space: normal; min-width: 4.6rem; }
tbody tr + tr td { border-top: 1px solid var(--rule); }
th:first-child, td:first-child, .second th:nth-child(2), .second td:nth-child(2)
  { text-align: left; }
td:first-child, th:first-child { position: sticky; left: 0; background: var(--card); }
.gallery { display: grid; gap: .9rem; margin: 1rem 0;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 19rem), 1fr)); }
.maps { background: var(--card); border: 1px solid var(--rule); border-radius: 10px;
  padding: .6rem; }
.maps .row { display: grid; grid-auto-flow: column; grid-auto-columns: 1fr; gap: .35rem; }
.maps img { width: 100%; display: block; border-radius: 4px; image-rendering: pixelated; }
.maps .right { color: var(--good); } .maps .wrong { color: var(--warn); }
.maps figcaption { margin-top: .4rem; }
.picture { background: #fff; border: 1px solid var(--rule); border-radius: 10px; padding: .5rem;
  display: inline-block; max-width: 100%; margin: .6rem 0; }
.picture img { max-width: 100%; height: auto; display: block; }
details { margin: .6rem 0; } summary { cursor: pointer; color: var(--accent); }
@media (max-width: 30rem) { main { padding: 1.3rem .8rem 3rem; } h1 { font-size: 1.4rem; }
  .cards { grid-template-columns: repeat(2, 1fr); gap: .5rem; }
  .card { padding: .6rem .7rem; } .card .value { font-size: 1.2rem; }
  th, td { padding: .4rem .55rem; } svg text { font-size: 13px; } }
@media print { .scroll { overflow: visible; } }
"""
