"""The page's style sheet, on top of Gradio's; its colours follow Gradio's light and dark."""

CSS = """
:root { --aib-opacity: .55; --aib-soft: #5d6673; }
.dark { --aib-soft: #9aa4b2; }
.aib-soft { color: var(--aib-soft); font-size: .875rem; margin: .35rem 0; }
.aib-bad { color: #b42318; background: #fef3f2; border: 1px solid #fda29b; border-radius: 8px;
  padding: .5rem .75rem; margin: .35rem 0; }
.dark .aib-bad { color: #fda29b; background: #3a1613; border-color: #7a271a; }
.aib-run { font-size: 1.1rem; font-weight: 650; margin: 0; overflow-wrap: anywhere; }
.aib-run small { font-weight: 400; color: var(--aib-soft); margin-left: .4rem; }
.aib-bars { display: grid; gap: .3rem; }
.aib-bar { display: grid; grid-template-columns: minmax(5rem, 9rem) 1fr 7.2rem; gap: .6rem;
  align-items: center; font-variant-numeric: tabular-nums; }
.aib-bar > span:first-child { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.aib-bar > span:last-child { text-align: left; white-space: nowrap; }
.aib-bar small { color: var(--aib-soft); }
.aib-track { background: var(--border-color-primary); border-radius: 4px; height: .7rem;
  overflow: hidden; }
.aib-track i { display: block; height: 100%; background: #2f7fd1; }
.aib-bar:not(:first-child) .aib-track i { opacity: .55; }
.aib-figure, .aib-row figure { margin: 0; min-width: 0; }
.aib-figure figcaption, .aib-row figcaption { color: var(--aib-soft);
  font-size: .8rem; line-height: 1.35; margin-top: .25rem; }
.aib-stack { position: relative; width: 100%; overflow: hidden; border-radius: 6px;
  background: #000; }
.aib-stack img { display: block; width: 100%; height: auto; }
.aib-stack > div + div { position: absolute; inset: 0; }
.aib-stack > div + div img { height: 100%; object-fit: fill; }
.aib-over { opacity: var(--aib-opacity); }
.aib-grey > div:first-child { filter: grayscale(1) brightness(.75); }
.aib-pixels img { image-rendering: pixelated; }
.aib-scale { display: flex; gap: .4rem; align-items: center; font-size: .75rem; height: 1.1rem;
  margin-top: .3rem; color: var(--aib-soft); font-variant-numeric: tabular-nums; }
.aib-scale i { flex: 1; height: .5rem; border-radius: 3px; }
.aib-swatches { display: flex; flex-wrap: wrap; gap: 2px; margin-top: .3rem; min-height: 1.1rem; }
.aib-swatches i { width: 1rem; height: 1rem; border-radius: 3px; }
.aib-swatches .aib-off { opacity: .18; }
.aib-empty { aspect-ratio: 1; max-height: 16rem; display: grid; place-items: center;
  text-align: center; padding: 1rem; border: 1px dashed var(--border-color-primary);
  border-radius: 6px; color: var(--aib-soft); font-size: .875rem; }
.aib-row { display: grid; gap: .5rem;
  grid-template-columns: repeat(auto-fill, minmax(4.9rem, 1fr)); }
.aib-row.aib-three { grid-template-columns: repeat(3, 1fr); max-width: 34rem; }
.aib-row img { width: 100%; display: block; border-radius: 6px; }
.aib-change { border-top: 1px solid var(--border-color-primary); padding-top: .7rem; }
.aib-change h4 { margin: 0 0 .3rem; font-weight: 650; }
.aib-verdict { margin: .3rem 0; }
.aib-table { border-collapse: collapse; font-size: .875rem; margin: .5rem 0 .8rem;
  font-variant-numeric: tabular-nums; }
.aib-table, .aib-table * { border: 0 !important; }
.gradio-container .aib-table :is(th, td) { padding: .2rem 1.2rem .2rem 0; text-align: right; }
.gradio-container .aib-table :is(th, td):first-child { text-align: left; }
.aib-table th { color: var(--aib-soft); font-weight: 500; }
.gradio-container .html-container { padding: 0; }
.gradio-container .column { gap: .7rem; }
#aib-file .wrap { font-size: .95rem; line-height: 1.4; }
#aib-examples { border: 0; background: none; }
#aib-examples .grid-wrap { padding: 0; min-height: 0; max-height: none; }
#aib-examples .grid-container { grid-template: none / repeat(6, minmax(0, 1fr)) !important;
  grid-auto-rows: auto; gap: .3rem; }
.aib-maps { display: grid !important; gap: .9rem;
  grid-template-columns: repeat(auto-fit, minmax(8.2rem, 1fr)); }
#aib-picture img { image-rendering: pixelated; cursor: crosshair; }
@media (max-width: 30rem) {
  .aib-bar { grid-template-columns: minmax(4rem, 6rem) 1fr 6.6rem; gap: .4rem; } }
"""
