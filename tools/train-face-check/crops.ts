/** Side of a collected crop in pixels, and relative to the extent of the mesh that it surrounds. */
export const CROP = 352;
export const CROP_SCALE = 2.2;
