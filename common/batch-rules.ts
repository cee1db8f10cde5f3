/** Most items of a batch. */
export const MAX_ITEMS = 1_000;

/** Form of a batch's id. */
export const BATCH_ID = /^bat-[0-9a-z]{26}$/;
