// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_REPORT_STYLE_HPP
#define CAIRN_TOOLS_REPORT_STYLE_HPP

namespace tool::page {

/// One scale of sizes (12, 14, 15, 20, 26 px), two typefaces, one accent. The colours of cells and
/// bars are Paul Tol's "light" scheme, which is made for cells with black labels and can be told
/// apart by colour-blind readers. What is drawn for a wide screen has the class `w`, for a narrow
/// one `n`.
inline constexpr const char* style = R"css(
:root{color-scheme:light dark;
--mono:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;--bg:#fff;
--fg:#16191d;--soft:#59636e;--line:#dde2e7;--track:#eef1f4;--edge:#fff;--bad:#a8321d;
--good:#1b6e4b}
@media(prefers-color-scheme:dark){:root{--bg:#121518;--fg:#e4e8ec;--soft:#98a3ae;--line:#2b3137;
--track:#20252a;--edge:#c3ccd4;--bad:#f08a72;--good:#6cc9a1}
.c0,.c1,.c2,.c3,.c4,.c5,.c6,.c7,.c8{filter:saturate(.9) brightness(.86)}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0 auto;max-width:1120px;padding:28px 20px 72px;background:var(--bg);color:var(--fg);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;overflow-wrap:anywhere}
h1{font-family:var(--mono);font-size:26px;line-height:1.2;font-weight:650;margin:0;
letter-spacing:-.01em}
h2{font-size:20px;line-height:1.3;font-weight:650;margin:44px 0 4px}
p{margin:4px 0 12px}
.s{color:var(--soft);font-size:14px}
code,.m{font-family:var(--mono);font-size:.93em;unicode-bidi:isolate}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(112px,1fr));gap:14px 20px;
margin:22px 0 0;padding:16px 0;border:solid var(--line);border-width:1px 0}
.facts div{min-width:0}
.facts dt{color:var(--soft);font-size:12px}
.facts dd{margin:0;font-size:20px;line-height:1.35;font-variant-numeric:tabular-nums}
.facts .long{grid-column:1/-1;display:flex;gap:14px;align-items:baseline}
.facts .long+.long{margin-top:-8px}
.facts .long dt{flex:0 0 68px}
.facts .long dd{font-size:14px;min-width:0}
svg{display:block;width:100%;height:auto;font-family:var(--mono)}
svg text{fill:var(--fg)}
svg .k text{fill:#111;pointer-events:none}
.soft,svg text.soft{color:var(--soft);fill:var(--soft)}
.n{display:none}
.c0{fill:#7ad;background:#7ad}.c1{fill:#e86;background:#e86}.c2{fill:#ed8;background:#ed8}
.c3{fill:#9df;background:#9df}.c4{fill:#fab;background:#fab}.c5{fill:#4b9;background:#4b9}
.c6{fill:#bc3;background:#bc3}.c7{fill:#aa0;background:#aa0}.c8{fill:#ccc;background:#ccc}
.mix{fill:var(--track);background:var(--track)}
.sw.mix{border:1px solid var(--soft)}
.map .k .mix{fill:var(--fg)}
.map path{stroke:var(--edge);stroke-width:.6}
.map .o path{fill:none;pointer-events:none}
.map .i{display:none}
.map g:focus{outline:none}
.map g:hover path,.map g:focus path{stroke:#111;stroke-width:1.6}
.map g:hover .i,.map g:focus .i{display:inline}
.map:hover g:focus:not(:hover) .i{display:none}
.map:hover .hint,.map:focus-within .hint{display:none}
.map .k{opacity:.86}
.map .b,.map .g{paint-order:stroke;stroke:var(--edge);stroke-opacity:.5;stroke-width:3px;
stroke-linejoin:round}
.map .b{font-weight:700}
.key{display:flex;flex-wrap:wrap;gap:4px 18px;list-style:none;margin:0 0 10px;padding:0;
font-size:14px;font-variant-numeric:tabular-nums}
.sw{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:6px;
vertical-align:-1px}
table{border-collapse:collapse;width:100%;font-size:14px}
th{font-weight:400;font-size:12px;color:var(--soft);text-align:left;padding:4px 12px 4px 0;
border-bottom:1px solid var(--line)}
td{padding:4px 12px 4px 0;vertical-align:baseline;border-bottom:1px solid var(--line)}
th:last-child,td:last-child{padding-right:0}
.r{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.bar{display:block;height:9px;min-width:80px;background:var(--track);border-radius:2px;
overflow:hidden}
.bar i{display:block;height:100%;min-width:1px}
.share{table-layout:fixed}
.share th:nth-child(1){width:34%}
.share th:nth-child(n+3){width:84px}
td:first-child .sw{margin-right:7px}
.phases td:first-child{white-space:nowrap}
.hist{width:96px;min-width:96px}
.l{display:none;color:var(--soft)}
.stats td:not(:last-child),.stats th:not(:last-child){padding-right:10px}
details{border-bottom:1px solid var(--line);padding:8px 0}
summary{cursor:pointer;font-size:14px}
summary .m{word-break:break-all}
summary .s{margin-left:4px}
.cut{display:grid;grid-template-columns:minmax(0,440px) minmax(0,1fr);gap:24px;
margin:10px 0 8px;align-items:start}
.cut path{stroke:var(--bg);stroke-width:1}
.list{margin:4px 0 12px;padding-left:20px;font-size:14px}
.bad{color:var(--bad)}.good{color:var(--good)}
@media(max-width:719px){
body{padding:20px 15px 56px}
h1{font-size:20px}
h2{margin-top:34px}
.w{display:none}
.n{display:block}
.facts{grid-template-columns:1fr 1fr 1fr;gap:12px 14px}
.facts dd{font-size:15px}
.facts .long dd{font-size:12px}
.cut{grid-template-columns:minmax(0,1fr);gap:12px}
.names thead,.share thead{display:none}
.names tr,.share tr{display:flex;flex-wrap:wrap;gap:0 14px;padding:5px 0;
border-bottom:1px solid var(--line)}
.names td,.share td{border:0;padding:0}
.names td:first-child,.share td:first-child{flex:0 0 100%}
.names td:nth-child(4){margin-left:auto}
.stats td:nth-child(4){margin-left:0}
.stats .l{display:inline}
.stats td:nth-child(2){flex:0 0 100%}
.share td:nth-child(2){flex:1;align-self:center}
.share td:nth-child(n+3){min-width:54px}
.share td:nth-child(5),.phases th:nth-child(5),.phases td:nth-child(5){display:none}
.bar{min-width:40px}
}
)css";

}  // namespace tool::page

#endif
