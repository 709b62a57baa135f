// Names as people can trust them: callers choose names, and a character that shows nothing or turns the direction of text makes
// two names look alike. Each such character is shown as its code. Pure: text in, text out.

// Control and format characters, separators that are no plain space, fillers and variation selectors.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}\u00a0\u034f\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200a\u2011\u202f\u205f\u3000\u3164\ufe00-\ufe0f\uffa0\u{e0100}-\u{e01ef}]/gu;
const END_SPACE = /^ +| +$/g;

const code = (char) => `[U+${char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`;

/** The text with every character that cannot be seen shown as `[U+202E]`. Spaces at the ends are shown as `␣`. */
export const seen = (text) => String(text).replace(UNSEEN, code).replace(END_SPACE, (spaces) => "␣".repeat(spaces.length));

/** True of a text whose every character can be seen. */
export const isPlain = (text) => seen(text) === String(text);
