/** Length of the shown part of a key: `sk_live_` and 36 of its 256 random bits. */
export const KEY_PREFIX = 14;
