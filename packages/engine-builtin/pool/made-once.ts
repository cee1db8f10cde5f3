/**
 * Makes something when it is first asked for, and once. What could not be made is made anew for who asks next: that there
 * was no file or process left for it then says nothing of now.
 */
export function madeOnce<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => {
    made ??= make().catch((error: unknown) => {
      made = undefined;
      throw error;
    });
    return made;
  };
}
