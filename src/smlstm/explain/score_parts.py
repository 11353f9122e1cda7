"""How much of a score came from the steps, and how much from photo and sentence as wholes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ScoreParts:
    """A score as the sum of two parts."""

    steps: float
    """What was made of the parts that were looked at, step by step."""
    whole: float
    """What was made of the whole photo and the whole sentence; 0 of a model that compares none."""

    def describe(self) -> str:
        """One sentence; shares only where both parts add to the score."""
        score = self.steps + self.whole
        if self.whole == 0:
            return f"The score is {score:.3f}, all of it from the steps."
        steps, whole = f"{self.steps:.3f}", f"{self.whole:.3f}"
        if self.steps > 0 and self.whole > 0:
            steps += f" ({self.steps / score:.0%})"
            whole += f" ({self.whole / score:.0%})"
        return f"The score is {score:.3f}: {steps} from the steps, {whole} from photo and sentence as wholes."
