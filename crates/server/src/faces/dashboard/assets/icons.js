// The few pictures there are, drawn with strokes in the colour of the text around them.

import { s } from "./dom.js";

const PATHS = {
  lock: ["M6.500 10.500h11v9h-11z", "M9 10.500V8a3 3 0 0 1 6 0v2.500"],
  pool: ["M4.500 4.500h6v6h-6zM13.500 4.500h6v6h-6zM4.500 13.500h6v6h-6zM13.500 13.500h6v6h-6z"],
  claim: ["M4.500 7h15M4.500 12h10M4.500 17h6", "M17.500 14.500v5M15 17h5"],
  cluster: ["M12 4.500a2.500 2.500 0 1 0 0 5a2.500 2.500 0 0 0 0-5z", "M6 14.500a2.500 2.500 0 1 0 0 5a2.500 2.500 0 0 0 0-5zM18 14.500a2.500 2.500 0 1 0 0 5a2.500 2.500 0 0 0 0-5z", "M10.500 9.300L7.500 14.700M13.500 9.300L16.500 14.700M8.500 17h7"],
  auto: ["M12 4a8 8 0 1 0 0 16z", "M12 4a8 8 0 0 1 0 16"],
  light: ["M12 8a4 4 0 1 0 0 8a4 4 0 0 0 0-8z", "M12 3v1.500M12 19.500V21M3 12h1.500M19.500 12H21M5.600 5.600l1 1M17.400 17.400l1 1M5.600 18.400l1-1M17.400 6.600l1-1"],
  dark: ["M19 14.500A7.500 7.500 0 0 1 9.500 5a7.500 7.500 0 1 0 9.500 9.500z"],
  close: ["M6.500 6.500l11 11M17.500 6.500l-11 11"],
  back: ["M14.500 5.500L8 12l6.500 6.500"],
  link: ["M10 14a3.500 3.500 0 0 0 5 0l3-3a3.500 3.500 0 0 0-5-5l-1 1", "M14 10a3.500 3.500 0 0 0-5 0l-3 3a3.500 3.500 0 0 0 5 5l1-1"],
};

export function icon(name, size = 20) {
  const drawing = s("svg", { viewBox: "0 0 24 24", width: size, height: size, class: `icon-${name}`, "aria-hidden": "true" });
  for (const d of PATHS[name]) drawing.append(s("path", { d }));
  return drawing;
}
