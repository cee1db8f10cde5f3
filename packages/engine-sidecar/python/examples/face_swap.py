"""Photo Swap with OpenCV alone: detects eyes, aligns the source face to them, and joins it by Poisson blending.

Only frontal faces work. Occlusion is ignored, and the result has the expression of the source. This is a small example
to read and to replace.
"""

import cv2
import numpy as np

from semblance_sidecar import Capability, Engine, Findings, Hint, Job, Limits, RenderError, Result, serve

MAX_PIXELS = 40_000_000
# Distance of the eyes, in pixels, below which a face is small.
SMALL = 36
# Face ellipse in units of the distance between the eyes: offset of its centre below their middle, half its width, half
# its height. It extends from the brows to the chin, inside the outline of the face.
DOWN, WIDE, HIGH = 0.56, 0.96, 1.18


class FaceSwap(Engine):
    name = "opencv-swap"
    version = "1"
    concurrency = 2
    capabilities = [Capability("face-swap-image", memory_mib=700, limits=Limits(max_pixels=MAX_PIXELS))]

    def load(self):
        folder = cv2.data.haarcascades
        self.faces = cv2.CascadeClassifier(folder + "haarcascade_frontalface_alt2.xml")
        self.eyes = cv2.CascadeClassifier(folder + "haarcascade_eye_tree_eyeglasses.xml")
        cv2.setNumThreads(1)
        self.find(np.zeros((128, 128, 3), np.uint8))

    def read(self, path, what):
        image = cv2.imread(path, cv2.IMREAD_COLOR)
        if image is None:
            raise RenderError("unsupported_format", f"The {what} cannot be read as a picture.")
        if image.shape[0] * image.shape[1] > MAX_PIXELS:
            raise RenderError("input_too_large", f"The {what} has more than {MAX_PIXELS // 1_000_000} megapixels.")
        return image

    def find(self, image):
        """Returns the left and the right eye of every face with two, the largest face first."""
        grey = cv2.equalizeHist(cv2.cvtColor(image, cv2.COLOR_BGR2GRAY))
        least = max(40, min(grey.shape) // 12)
        found = []
        for x, y, w, h in self.faces.detectMultiScale(grey, 1.1, 4, minSize=(least, least)):
            upper = grey[y : y + int(h * 0.6), x : x + w]
            scale = 200 / w
            upper = cv2.resize(upper, None, fx=scale, fy=scale)
            boxes = self.eyes.detectMultiScale(upper, 1.05, 3, minSize=(25, 25), maxSize=(70, 70))
            centres = [(x + (ex + ew / 2) / scale, y + (ey + eh / 2) / scale) for ex, ey, ew, eh in boxes]
            left = [c for c in centres if c[0] < x + w / 2]
            right = [c for c in centres if c[0] >= x + w / 2]
            pairs = [(a, b) for a in left for b in right if b[0] - a[0] > w / 4 and abs(b[1] - a[1]) < w / 8]
            if pairs:
                # Two eyes are at about the same height; brows and nostrils are not.
                found.append((w, min(pairs, key=lambda pair: abs(pair[0][1] - pair[1][1]))))
        return [np.array(pair) for _, pair in sorted(found, key=lambda each: -each[0])]

    def look(self, job: Job):
        """Returns both pictures, the eyes of the source and of the targets, and what that tells the job's owner."""
        job.progress(0, "decode")
        image = self.read(job.inputs["image"], "base image (image_key)")
        face = self.read(job.inputs["face"], "face picture (face_key)")
        job.progress(0.2, "detect")
        sources, targets = self.find(face), self.find(image)
        if not sources:
            raise RenderError("face_not_detected", "No face was found in the face picture (face_key).")
        hints = []
        if len(sources) > 1:
            hints.append(Hint("several_faces", f"The face picture shows {len(sources)} faces; the largest is used.", "face"))
        apart = round(float(np.hypot(*(sources[0][1] - sources[0][0]))))
        if apart < SMALL:
            hints.append(Hint("face_small", f"The face is small, with {apart} pixels between the eyes.", "face"))
        findings = Findings(changed=len(targets), hints=hints)
        if not targets:
            raise RenderError("face_not_detected", "No face was found in the base image (image_key).", findings)
        return image, face, sources[0], targets, findings

    def inspect(self, job: Job) -> Findings:
        return self.look(job)[-1]

    def render(self, job: Job) -> Result:
        image, face, source, targets, findings = self.look(job)
        for index, target in enumerate(targets):
            job.progress(0.5 + 0.4 * index / len(targets), "swap")
            image = self.swap(image, face, source, target)
        job.progress(0.9, "encode")
        cv2.imwrite(job.output("output.png"), image)
        return Result("output.png", "image/png", images=1, details={"faces": len(targets)}, findings=findings)

    def swap(self, image, face, source, target):
        height, width = image.shape[:2]
        turn = cv2.estimateAffinePartial2D(source, target)[0]
        laid = cv2.warpAffine(face, turn, (width, height), flags=cv2.INTER_AREA, borderMode=cv2.BORDER_REFLECT)
        across = target[1] - target[0]
        distance = float(np.hypot(*across))
        centre = target.mean(axis=0) + DOWN * np.array([-across[1], across[0]])
        angle = float(np.degrees(np.arctan2(across[1], across[0])))
        mask = np.zeros((height, width), np.uint8)
        axes = (round(WIDE * distance), round(HIGH * distance))
        cv2.ellipse(mask, tuple(map(round, centre)), axes, angle, 0, 360, 255, -1)
        # Blending needs a pixel of the base image on all sides of the mask.
        mask[[0, -1], :] = 0
        mask[:, [0, -1]] = 0
        x, y, w, h = cv2.boundingRect(mask)
        return cv2.seamlessClone(laid, image, mask, (x + w // 2, y + h // 2), cv2.NORMAL_CLONE)


if __name__ == "__main__":
    serve(FaceSwap)
