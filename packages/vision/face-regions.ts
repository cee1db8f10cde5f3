/** Named groups of mesh points, as outlines in drawing order or as plain sets. */

/** Outline of the face from the top of the forehead down the person's left side and up the right. */
export const FACE_OVAL = [
  10, 338, 297, 332, 284, 251, 389, 356, 454, 323, 361, 288, 397, 365, 379, 378, 400, 377, 152, 148, 176, 149,
  150, 136, 172, 58, 132, 93, 234, 127, 162, 21, 54, 103, 67, 109,
] as const;

export const RIGHT_EYE = [
  33, 7, 163, 144, 145, 153, 154, 155, 133, 173, 157, 158, 159, 160, 161, 246,
] as const;
export const LEFT_EYE = [
  263, 249, 390, 373, 374, 380, 381, 382, 362, 398, 384, 385, 386, 387, 388, 466,
] as const;

/** Outlines of both lids of each eye, up to the crease under the brow. */
export const RIGHT_LIDS = [130, 25, 110, 24, 23, 22, 26, 112, 243, 190, 56, 28, 27, 29, 30, 247] as const;
export const LEFT_LIDS = [
  359, 255, 339, 254, 253, 252, 256, 341, 463, 414, 286, 258, 257, 259, 260, 467,
] as const;

/** Outlines of the brows: the lower edge from outside to inside, then the upper edge back. */
export const RIGHT_BROW = [46, 53, 52, 65, 55, 107, 66, 105, 63, 70] as const;
export const LEFT_BROW = [276, 283, 282, 295, 285, 336, 296, 334, 293, 300] as const;

export const LIPS_OUTER = [
  61, 146, 91, 181, 84, 17, 314, 405, 321, 375, 291, 409, 270, 269, 267, 0, 37, 39, 40, 185,
] as const;
export const LIPS_INNER = [
  78, 95, 88, 178, 87, 14, 317, 402, 318, 324, 308, 415, 310, 311, 312, 13, 82, 81, 80, 191,
] as const;

/** Wings and base of the nose, with the nostrils and their shadows. */
export const NOSE_BASE = [98, 97, 2, 326, 327, 294, 278, 344, 440, 275, 4, 45, 220, 115, 48, 64] as const;

/** Outer ends of the face at the height of the ears; their distance is the width of the face. */
export const FACE_SIDES = [234, 454] as const;

/** The upper bridge of the nose, and the areas that the lenses of glasses cover. */
export const NOSE_BRIDGE = [193, 168, 417, 465, 412, 351, 197, 122, 188, 245] as const;
export const RIGHT_LENS = [
  70, 63, 105, 66, 107, 55, 193, 122, 196, 142, 36, 205, 187, 123, 227, 139,
] as const;
export const LEFT_LENS = [
  300, 293, 334, 296, 336, 285, 417, 351, 419, 371, 266, 425, 411, 352, 447, 368,
] as const;
